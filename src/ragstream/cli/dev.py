"""``ragstream dev``: the embedded stack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ragstream.cli.console import out, print_table
from ragstream.devstack.kafka import Broker
from ragstream.devstack.stack import PORTS, Stack, serve
from ragstream.devstack.state import DEFAULT_STATE, Endpoints
from ragstream.devstack.status import Status, status
from ragstream.domain.errors import ConfigurationError

__all__ = ["dev", "memory_table"]


def dev(
    state: Annotated[
        Path, typer.Option(help="Folder of its data, logs and dev.env.")
    ] = DEFAULT_STATE,
    port: Annotated[
        list[str] | None,
        typer.Option(help=f"NAME=PORT, NAME one of {', '.join(PORTS)}; others are chosen."),
    ] = None,
    broker: Annotated[
        Broker | None, typer.Option(help="How Kafka runs; what the machine offers by default.")
    ] = None,
    show_status: Annotated[
        bool, typer.Option("--status", help="Show what a running stack consists of and costs.")
    ] = False,
) -> None:
    """Start Kafka, Valkey, PostgreSQL and the vector store on 127.0.0.1; Ctrl-C stops them.

    Their addresses are written to .ragstream/dev.env, where the other commands find them.

    Example: [bold]ragstream dev --port kafka=9092[/]
    """
    if show_status:
        print_table(memory_table(status(state)))
        return
    stack = Stack(state, ports=dict(map(_port, port or [])), broker=broker, report=_say)
    raise typer.Exit(asyncio.run(serve(stack, _say, lambda found: _announce(found, state))))


def _announce(endpoints: Endpoints, state: Path) -> None:
    out.print()
    if endpoints.kafka is None:
        out.print(f"kafka     in-memory bus, inside one process only ({endpoints.reason})")
    else:
        out.print(f"kafka     {endpoints.kafka}")
    out.print(f"redis     {_without_password(endpoints.redis)}")
    out.print(f"postgres  {_without_password(endpoints.postgres)}")
    out.print(f"qdrant    {endpoints.qdrant}")
    if endpoints.kafka is None:
        following = (
            "without a broker only programs that hold the whole pipeline can use them: `ragstream "
            "demo`, or ragstream.serve.in_process. For a broker: Java 17 and Maven, or Docker"
        )
    else:
        following = "next: ragstream topics apply, ragstream worker"
    out.print(f"\nwritten to {state / 'dev.env'}; {following}", markup=False)


def memory_table(found: Status) -> Table:
    """Components with their memory."""
    table = Table("component", "pid", "port", "MiB", box=None)
    for usage in found.components:
        memory = f"{usage.memory:.0f}" if usage.running else "not running"
        table.add_row(usage.name, str(usage.pid), str(usage.port or ""), memory)
    table.add_row("total", "", "", f"{found.total:.0f}", style="bold")
    return table


def _port(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in PORTS or not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f"--port {text}: must be NAME=PORT, NAME of {', '.join(PORTS)}")
    if not 0 < int(number[:6]) < 65_536:
        raise ConfigurationError(f"--port {text}: PORT must be 1 to 65535")
    return name, int(number)


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _say(message: str) -> None:
    out.print(message, markup=False)
