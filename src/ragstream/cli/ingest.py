"""``ragstream ingest``: files into the index, by way of the documents topic."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from ragstream.cli.console import err
from ragstream.cli.documents import KINDS, checked_kind, publish_documents, tell
from ragstream.cli.exits import FAILED
from ragstream.settings import Settings, load_settings
from ragstream.sources import read_documents

__all__ = ["ingest", "ingest_paths"]


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
    base = {"kind": checked_kind(kind), "tenant": tenant, "access": access or []}
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
    found = (item for path in paths for item in read_documents(path, base=base, metadata=metadata))
    done = await publish_documents(settings, found, "indexed", wait=wait, patience=patience)
    if not done.found:
        err.print("[red]no documents found[/]")
        return FAILED
    tell(done.count, "indexed" if done.read else "published")
    return done.code


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} must be FIELD=VALUE", param_hint="--set")
    return name, value
