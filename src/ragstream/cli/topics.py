"""``ragstream topics``: creating and checking the topics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import typer
from rich.markup import escape

from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.cli.console import err, out
from ragstream.cli.exits import FAILED
from ragstream.connection import kafka_connection
from ragstream.domain.declarations import DAY, TopicDeclaration, declare, groups
from ragstream.domain.topics import Topics
from ragstream.settings import Settings, load_settings

__all__ = ["app", "apply_topics"]

app = typer.Typer(help="Create and check the topics.", no_args_is_help=True)


@app.command()
def apply() -> None:
    """Create the topics that are missing, and let consumer groups start at their beginning.

    Nothing is ever deleted or reconfigured; what differs is told.

    Example: [bold]ragstream topics apply[/]
    """
    raise typer.Exit(asyncio.run(apply_topics(load_settings())))


@app.command()
def check() -> None:
    """Compare the topics with their declaration; exit code 1 when something differs.

    Example: [bold]ragstream topics check[/]
    """
    raise typer.Exit(asyncio.run(_check(load_settings())))


async def apply_topics(settings: Settings, *, quiet: bool = False) -> int:
    declared = declared_for(settings)
    async with TopicAdmin(kafka_connection(settings)) as admin:
        applied = await admin.apply(declared)
        started = await admin.initialise_groups(groups(declared))
    if not quiet:
        for name in applied.created:
            out.print(f"created {name}")
        for group in started:
            out.print(f"group {group.group} starts at the beginning ({group.records} records)")
        if not applied.created and not started:
            out.print("everything is there")
    for problem in applied.problems:
        err.print(f"[yellow]differs[/] {escape(str(problem))}")
    return FAILED if applied.problems else 0


async def _check(settings: Settings) -> int:
    declared = declared_for(settings)
    async with TopicAdmin(kafka_connection(settings)) as admin:
        problems = await admin.check(declared) + outlived(settings, declared)
        if not problems:
            lacking = await admin.uninitialised_groups(groups(declared))
            problems = [f"group {name}: no committed offsets" for name in sorted(lacking)]
    for problem in problems:
        err.print(f"[red]{escape(str(problem))}[/]")
    if not problems:
        out.print(f"{len(declared)} topics are as declared")
    return FAILED if problems else 0


def outlived(settings: Settings, declared: Iterable[TopicDeclaration]) -> list[str]:
    """Topics from which a query may come again after its outcome was forgotten."""
    kept = settings.postgres.outcome_retention
    return [
        f"{topic.name}: is retained for {topic.retention_ms / DAY:g} days, outcomes only for "
        f"{kept * 1000 / DAY:g} (RAGSTREAM_POSTGRES__OUTCOME_RETENTION)"
        for topic in declared
        if topic.retention_ms >= kept * 1000
    ]


def declared_for(settings: Settings) -> tuple[TopicDeclaration, ...]:
    """The declaration under these settings."""
    return declare(
        Topics(settings.kafka.prefix),
        "production" if settings.profile == "production" else "development",
        replication=settings.kafka.replication,
        partitions=settings.kafka.partitions,
    )
