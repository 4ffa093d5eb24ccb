"""``ragstream doctor``: what works, and what is wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer
from rich.markup import escape

from ragstream.cli.console import out, print_table
from ragstream.cli.dev import memory_table
from ragstream.cli.exits import FAILED
from ragstream.devstack.status import status
from ragstream.domain.errors import ConfigurationError
from ragstream.settings import load_settings

__all__ = ["doctor"]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Check every component and say what is wrong; exit code 1 when something is.

    Example: [bold]ragstream doctor[/]
    """
    from ragstream.cli.checks import examine, worker_pid  # every adapter: seconds to import

    settings = load_settings()
    results = asyncio.run(examine(settings))
    if as_json:
        out.print(
            json.dumps({name: {"ok": ok, "detail": text} for name, ok, text in results}),
            markup=False,
        )
    else:
        for name, ok, text in results:
            mark = "[green]ok   [/]" if ok else "[red]wrong[/]"
            out.print(f"{mark} [bold]{name:<11}[/] {escape(text)}")
        try:
            out.print()
            print_table(memory_table(status(extra=worker_pid(settings))))
        except ConfigurationError:
            pass  # no embedded stack: nothing to tell about its memory
    if not all(ok for _, ok, _ in results):
        raise typer.Exit(FAILED)
