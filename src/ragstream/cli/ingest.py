"""``ragstream ingest``: files into the index, by way of the documents topic."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragstream.adapters.kafka import KafkaBus
from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.cli.console import err, out
from ragstream.cli.exits import FAILED, NO_ANSWER
from ragstream.connection import kafka_connection
from ragstream.delivery.background import background
from ragstream.delivery.deadletter import DEAD_LETTER_PREFIX
from ragstream.domain.errors import PermanentError
from ragstream.domain.events import DocumentEvent
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.domain.topics import Topics
from ragstream.settings import CollectionNames, Settings, load_settings
from ragstream.sources import Unreadable, read_documents
from ragstream.wire import encode, event_id, record_key

__all__ = ["ingest", "ingest_paths"]

#: Of documents.
KINDS = tuple(CollectionNames.model_fields)
#: Documents published together.
BATCH = 100


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files (md, txt, html, jsonl) or folders.")],
    kind: Annotated[
        str, typer.Option(help=f"One of {', '.join(KINDS)}: decides the collection.")
    ] = "docs",
    tenant: Annotated[str, typer.Option(help="Whose documents.")] = "default",
    access: Annotated[
        list[str] | None, typer.Option(help="User that may read them; repeatable; all by default.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE of every document's metadata.")
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Give up when nothing moves for this many seconds.")
    ] = 120,
    wait: Annotated[bool, typer.Option(help="Wait until everything is indexed.")] = True,
) -> None:
    """Publish documents, and wait until a worker has indexed them.

    jsonl is BEIR's layout: _id, title, text, metadata. Unchanged documents cost next to nothing.

    Example: [bold]ragstream ingest docs/ --set product=kafka --set docVersion=3.7[/]
    """
    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(KINDS)}", param_hint="--kind")
    base = {"kind": kind, "tenant": tenant, "access": access or []}
    given = dict(map(_pair, metadata or []))
    code = asyncio.run(
        ingest_paths(load_settings(), paths, base, given, wait=wait, patience=patience)
    )
    raise typer.Exit(code)


async def ingest_paths(
    settings: Settings,
    paths: list[Path],
    base: dict[str, Any],
    metadata: dict[str, Any],
    *,
    wait: bool = True,
    patience: float = 120.0,
) -> int:
    """Exit code. Problems are printed as they are found."""
    connection = kafka_connection(settings)
    topics = Topics(settings.kafka.prefix)
    bus = KafkaBus(connection)
    found = (item for path in paths for item in read_documents(path, base=base, metadata=metadata))
    report = _Failures()
    try:
        async with (
            TopicAdmin(connection) as admin,
            bus.tail([topics.dlt(topics.documents)]) as failures,
            background(report.follow(failures)),
        ):
            with _progress() as progress:
                reading = progress.add_task("reading", total=None)
                published, unreadable = 0, 0
                while batch := list(islice(found, BATCH)):
                    documents = [item for item in batch if isinstance(item, DocumentEvent)]
                    unreadable += _print_unreadable(batch)
                    refused = await _publish(bus, documents, topics)
                    unreadable += refused
                    published += len(documents) - refused
                    progress.update(reading, completed=published)
                progress.update(reading, total=published)
                done = not wait or await _indexed(
                    admin, topics, published, progress, patience=patience
                )
            await asyncio.sleep(0.3)  # failures of the last documents may still be on their way
    finally:
        await bus.aclose()
    if not published and not unreadable:
        err.print("[red]no documents found[/]")
        return FAILED
    verb = "indexed" if wait and done else "published"
    count = published - report.count
    out.print(f"{count} {'document' if count == 1 else 'documents'} {verb}")
    if not done:
        return NO_ANSWER
    return FAILED if unreadable or report.count else 0


async def _publish(bus: KafkaBus, documents: list[DocumentEvent], topics: Topics) -> int:
    """Publish them all; how many were refused, which is told."""
    try:
        await bus.publish([_record(document, topics) for document in documents])
        return 0
    except PermanentError:
        refused = 0  # one or some of them: repeats of the others change nothing
    for document in documents:
        try:
            await bus.publish([_record(document, topics)])
        except PermanentError as error:
            refused += 1
            err.print(f"[red]skipped[/] {escape(document.document_id)}: {escape(str(error))}")
    return refused


async def _indexed(
    admin: TopicAdmin, topics: Topics, published: int, progress: Progress, *, patience: float
) -> bool:
    """Wait until the ingest stage has read everything. False when nothing moves any more."""
    group = topics.group("ingest")
    bar = progress.add_task("indexing", total=published)
    clock = asyncio.get_running_loop()
    before, moved_at = -1, clock.time()
    while lag := sum((await admin.lag(group, topics.documents)).values()):
        progress.update(bar, completed=max(0, published - lag))
        if lag != before:
            before, moved_at = lag, clock.time()
        elif clock.time() - moved_at > patience:
            err.print(
                f"[red]nothing was indexed for {patience:g} s, {lag} documents wait:[/] "
                "is a worker running? (`ragstream worker`, `ragstream doctor`)"
            )
            return False
        await asyncio.sleep(0.5)
    progress.update(bar, completed=published)
    return True


class _Failures:
    """Documents that ended in the dead-letter topic meanwhile."""

    def __init__(self) -> None:
        self.count = 0

    async def follow(self, records: Any) -> None:
        async for record in records:
            self.count += 1
            err.print(f"[red]not indexed:[/] {escape(_failure(record))}")


def _failure(record: InboundRecord) -> str:
    message = record.header(DEAD_LETTER_PREFIX + "exception.message") or b"?"
    subject = record.header("ce_subject") or b"?"
    return f"{subject.decode(errors='replace')}: {message.decode(errors='replace')}"


def _print_unreadable(batch: list[DocumentEvent | Unreadable]) -> int:
    problems = [item for item in batch if isinstance(item, Unreadable)]
    for problem in problems:
        err.print(f"[red]skipped[/] {escape(str(problem))}")
    return len(problems)


def _record(document: DocumentEvent, topics: Topics) -> OutboundRecord:
    now = datetime.now(UTC)
    return encode(
        document,
        topic=topics.documents,
        key=record_key(document.tenant, document.document_id),
        id=event_id(document.tenant, document.document_id, now.isoformat()),
        time=now,
        subject=document.document_id,
        source="ragstream.ingest",
    )


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} must be FIELD=VALUE", param_hint="--set")
    return name, value
