"""Publishing documents, and waiting for what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

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
from ragstream.settings import CollectionNames, Settings
from ragstream.sources import Unreadable
from ragstream.wire import encode, event_id, record_key

__all__ = ["KINDS", "Done", "checked_kind", "publish_documents", "tell"]

#: Of documents.
KINDS = tuple(CollectionNames.model_fields)
#: Documents published together.
BATCH = 100


@dataclass(frozen=True, slots=True)
class Done:
    """How it went: the exit code, how many documents there were and how many of them reached the
    end, whether that was waited for, and the record keys of those whose chunks changed."""

    code: int
    found: int
    count: int
    read: bool
    changed: frozenset[bytes]


def checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(KINDS)}", param_hint="--kind")
    return kind


async def publish_documents(
    settings: Settings,
    found: Iterator[DocumentEvent | Unreadable],
    verb: str,
    *,
    wait: bool,
    patience: float,
) -> Done:
    """Publish what was found, and with ``wait`` return when a worker has read it all. ``verb``:
    what is done to the documents. Problems are printed as they are found."""
    connection = kafka_connection(settings)
    topics = Topics(settings.kafka.prefix)
    bus = KafkaBus(connection)
    seen = _Seen(topics, verb)
    try:
        async with (
            TopicAdmin(connection) as admin,
            bus.tail([topics.dlt(topics.documents), topics.index_changes]) as records,
            background(seen.follow(records)),
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
                done = not wait or await _read(
                    admin, topics, published, progress, patience=patience
                )
            await asyncio.sleep(0.3)  # what became of the last ones may still be on its way
    finally:
        await bus.aclose()
    failed = FAILED if unreadable or seen.failures else 0
    return Done(
        code=failed if done else NO_ANSWER,
        found=published + unreadable,
        count=published - seen.failures,
        read=wait and done,
        changed=frozenset(seen.changed),
    )


def tell(count: int, verb: str) -> None:
    out.print(f"{count} {'document' if count == 1 else 'documents'} {verb}")


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


async def _read(
    admin: TopicAdmin, topics: Topics, published: int, progress: Progress, *, patience: float
) -> bool:
    """Wait until the ingest stage has read everything. False when nothing moves any more."""
    group = topics.group("ingest")
    bar = progress.add_task("waiting", total=published)
    clock = asyncio.get_running_loop()
    before, moved_at = -1, clock.time()
    while lag := sum((await admin.lag(group, topics.documents)).values()):
        progress.update(bar, completed=max(0, published - lag))
        if lag != before:
            before, moved_at = lag, clock.time()
        elif clock.time() - moved_at > patience:
            err.print(
                f"[red]nothing moved for {patience:g} s, {lag} documents wait:[/] "
                "is a worker running? (`ragstream worker`, `ragstream doctor`)"
            )
            return False
        await asyncio.sleep(0.5)
    progress.update(bar, completed=published)
    return True


class _Seen:
    """What became of documents meanwhile: those in the dead-letter topic, which are told, and the
    keys of those that the index held otherwise."""

    def __init__(self, topics: Topics, verb: str) -> None:
        self.failures = 0
        self.changed: set[bytes] = set()
        self._changes = topics.index_changes
        self._verb = verb

    async def follow(self, records: AsyncIterator[InboundRecord]) -> None:
        async for record in records:
            if record.topic == self._changes:
                self.changed.add(record.key or b"")
            else:
                self.failures += 1
                err.print(f"[red]not {self._verb}:[/] {escape(_failure(record))}")


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
