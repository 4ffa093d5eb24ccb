"""``ragstream dlt``: what could not be processed, and trying it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table
from rich.text import Text

from ragstream.adapters import postgres
from ragstream.adapters.kafka import KafkaPublisher
from ragstream.adapters.kafka_log import read_log, read_one
from ragstream.cli.console import err, out, print_table
from ragstream.cli.exits import NOTHING_FOUND, WRONG
from ragstream.cli.times import TIME_HELP, point_in_time
from ragstream.connection import kafka_connection, open_database
from ragstream.delivery.replay import Letter, Replayer, stored_place
from ragstream.domain.topics import TOPIC_KINDS, Topics
from ragstream.pipeline import chosen_stages
from ragstream.settings import Settings, load_settings

__all__ = ["app"]

app = typer.Typer(
    help="Look at dead letters, replay them, and let stopped stages go on.", no_args_is_help=True
)

TopicOption = Annotated[
    str | None, typer.Option("--topic", help="Where they come from: queries, routed, documents, …")
]
ErrorOption = Annotated[
    str | None, typer.Option("--error", help="Class or code of the error, such as InvalidEvent.")
]
QueryOption = Annotated[str | None, typer.Option("--query", help="The query_id.")]
SinceOption = Annotated[str | None, typer.Option("--since", help=TIME_HELP)]
UntilOption = Annotated[str | None, typer.Option("--until", help=TIME_HELP)]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters are meant."""

    topic: str | None
    error: str | None
    query: str | None
    since: datetime | None
    until: datetime | None

    def covers(self, letter: Letter) -> bool:
        return self.error in (None, letter.error, letter.code) and self.query in (
            None,
            letter.query_id,
        )

    @property
    def everything(self) -> bool:
        return self == Selection(None, None, None, None, None)


@app.command("list")
def list_letters(
    topic: TopicOption = None,
    error: ErrorOption = None,
    query: QueryOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(help="Most rows to show.", min=1)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
) -> None:
    """List dead letters, oldest first; exit code 5 when there are none.

    Example: [bold]ragstream dlt list --topic queries --error InvalidEvent --since 2h[/]
    """
    selection = _selection(topic, error, query, since, until)
    letters = asyncio.run(_collect(load_settings(), selection))
    if not letters:
        err.print("no dead letters")
        raise typer.Exit(NOTHING_FOUND)
    for letter in letters[:limit] if as_json else ():
        out.print(orjson.dumps(_facts(letter)).decode(), markup=False)
    if not as_json:
        print_table(_table(letters[:limit]))
    if len(letters) > limit:
        err.print(f"{len(letters) - limit} more: raise --limit or narrow it down")


@app.command()
def show(
    place: Annotated[str, typer.Argument(help="PLACE of `dlt list`: TOPIC/PARTITION/OFFSET.")],
) -> None:
    """Show one dead letter: every header, and the value.

    Example: [bold]ragstream dlt show ragstream.queries.v1.dlt/0/17[/]
    """
    topic, _, rest = place.partition("/")
    partition, _, offset = rest.partition("/")
    if not (topic and partition.isdigit() and offset.isdigit()):
        err.print(f"{place}: not TOPIC/PARTITION/OFFSET")
        raise typer.Exit(WRONG)
    connection = kafka_connection(load_settings())
    record = asyncio.run(read_one(connection, topic, int(partition), int(offset)))
    if record is None:
        err.print(f"{place}: no such record")
        raise typer.Exit(NOTHING_FOUND)
    lines = [("time", _time(record.timestamp)), ("key", _shown(record.key))]
    lines += [(name, _shown(value)) for name, value in record.headers]
    for name, text in lines:
        out.print(Text(_printable(name), style="bold"), Text(text))
    out.print()
    out.print(Text(_shown(record.value)))


@app.command()
def replay(
    topic: TopicOption = None,
    error: ErrorOption = None,
    query: QueryOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Without any filter.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Say what would be done.")] = False,
) -> None:
    """Publish dead letters to the topics that they came from, each once.

    Key, value and headers stay; a query becomes a further generation of itself, with a new
    deadline. What was replayed before is left out. Exit code 5 when nothing is selected.

    Example: [bold]ragstream dlt replay --topic reranked --since 1d[/]
    """
    selection = _selection(topic, error, query, since, until)
    if selection.everything and not everything:
        err.print("say which: --topic, --error, --query, --since, --until, or --all")
        raise typer.Exit(WRONG)
    raise typer.Exit(asyncio.run(_replay(load_settings(), selection, dry_run=dry_run)))


@app.command()
def resume(
    stages: Annotated[list[str], typer.Argument(help="Stages that were stopped.")],
) -> None:
    """Let stages go on that stopped because too many records failed.

    Example: [bold]ragstream dlt resume answer[/]
    """
    asyncio.run(_resume(load_settings(), chosen_stages(stages)))


async def _collect(settings: Settings, selection: Selection) -> list[Letter]:
    letters = [letter async for letter in _letters(settings, selection)]
    return sorted(letters, key=lambda letter: letter.record.timestamp)


async def _letters(settings: Settings, selection: Selection) -> AsyncIterator[Letter]:
    topics = Topics(settings.kafka.prefix)
    kinds = [kind.name for kind in TOPIC_KINDS if kind.dlt]
    if selection.topic is not None:
        known = {name: name for name in kinds} | {topics.named(name): name for name in kinds}
        if selection.topic not in known:
            raise typer.BadParameter(f"{selection.topic!r}: one of {', '.join(kinds)}")
        kinds = [known[selection.topic]]
    sources = [topics.dlt(topics.named(kind)) for kind in kinds]
    records = read_log(
        kafka_connection(settings), sources, since=selection.since, until=selection.until
    )
    async for record in records:
        letter = Letter.read(record)
        if selection.covers(letter):
            yield letter


async def _replay(settings: Settings, selection: Selection, *, dry_run: bool) -> int:
    letters = await _collect(settings, selection)
    if not letters:
        err.print("no dead letters")
        return NOTHING_FOUND
    able = [letter for letter in letters if letter.hindrance is None]
    for letter in letters:
        if letter.hindrance is not None:
            err.print(Text(f"left out {stored_place(letter.record)}: {letter.hindrance}"))
    if dry_run:
        print_table(_table(able))
        return 0
    async with AsyncExitStack() as stack:
        database = open_database(settings, stack)
        await postgres.migrate(database)
        publisher = KafkaPublisher(
            kafka_connection(settings), timeout=settings.kafka.publish_timeout
        )
        stack.push_async_callback(publisher.aclose)
        replayer = Replayer(publisher, postgres.PostgresReplays(database))
        for letter in able:
            await replayer.replay(letter.record, topic=letter.topic, replay_id=letter.replay_id)
        out.print(str(replayer.done))
    return 0


async def _resume(settings: Settings, stages: tuple[str, ...]) -> None:
    async with AsyncExitStack() as stack:
        stops = postgres.PostgresStops(open_database(settings, stack))
        for stage in stages:
            cleared = await stops.clear(stage)
            out.print(f"{stage}: {'goes on' if cleared else 'was not stopped'}")


def _selection(
    topic: str | None, error: str | None, query: str | None, since: str | None, until: str | None
) -> Selection:
    return Selection(topic, error, query, point_in_time(since), point_in_time(until))


def _table(letters: list[Letter]) -> Table:
    columns = ("place", "time", "stage", "error", "attempt", "query_id", "message")
    table = Table(*columns, box=None, pad_edge=False)
    for letter in letters:
        facts = _facts(letter)
        table.add_row(*(Text(_printable(str(facts[name] or ""))) for name in columns))
    return table


def _facts(letter: Letter) -> dict[str, Any]:
    return {
        "place": stored_place(letter.record),
        "time": _time(letter.record.timestamp),
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "stage": letter.stage,
        "error": letter.error,
        "code": letter.code,
        "message": letter.message,
        "attempt": letter.attempt,
        "tenant": letter.tenant,
        "query_id": letter.query_id,
    }


def _time(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")


def _shown(value: bytes | None) -> str:
    if value is None:
        return "(null)"
    try:
        return _printable(value.decode())
    except UnicodeDecodeError:
        return repr(value)


def _printable(text: str) -> str:
    """The text with what would steer a terminal written out."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
