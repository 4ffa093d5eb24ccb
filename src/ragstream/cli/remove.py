"""``ragstream remove``: documents out of the index."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from ragstream.cli.console import err
from ragstream.cli.documents import KINDS, checked_kind, publish_documents, tell
from ragstream.cli.exits import NOTHING_FOUND
from ragstream.domain.events import DocumentAction, DocumentEvent
from ragstream.settings import Settings, load_settings
from ragstream.wire import record_key, validated

__all__ = ["remove"]


def remove(
    documents: Annotated[
        list[str], typer.Argument(help="Their ids: the path given to ingest, or _id of jsonl.")
    ],
    kind: Annotated[
        str, typer.Option(help=f"One of {', '.join(KINDS)}, as they were ingested.")
    ] = "docs",
    tenant: Annotated[str, typer.Option(help="Whose documents.")] = "default",
    patience: Annotated[
        float, typer.Option(help="Give up when nothing moves for this many seconds.")
    ] = 120,
    wait: Annotated[bool, typer.Option(help="Wait until they are removed.")] = True,
) -> None:
    """Remove documents, and wait until a worker has done it; exit code 5 for ids of no document.

    Example: [bold]ragstream remove docs/old.md --tenant acme[/]
    """
    action = {"kind": checked_kind(kind), "tenant": tenant, "action": DocumentAction.DELETE}
    events = [validated(DocumentEvent, {**action, "document_id": id}) for id in documents]
    raise typer.Exit(asyncio.run(_remove(load_settings(), events, wait=wait, patience=patience)))


async def _remove(
    settings: Settings, events: list[DocumentEvent], *, wait: bool, patience: float
) -> int:
    done = await publish_documents(settings, iter(events), "removed", wait=wait, patience=patience)
    if not done.read:
        tell(done.count, "published for removal")
        return done.code
    if done.code:  # which ones failed is told already
        return done.code
    absent = [e for e in events if record_key(e.tenant, e.document_id) not in done.changed]
    tell(done.count - len(absent), "removed")
    for event in absent:
        err.print(
            f"[yellow]was not there:[/] {escape(event.document_id)} "
            f"(kind {event.kind}, tenant {escape(event.tenant)})"
        )
    return NOTHING_FOUND if absent else 0
