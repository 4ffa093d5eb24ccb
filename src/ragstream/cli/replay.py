"""``ragstream replay``: stored events through the stages again."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.text import Text

from ragstream.cli.console import err, out
from ragstream.cli.exits import NOTHING_FOUND
from ragstream.cli.times import TIME_HELP, point_in_time
from ragstream.cli.topics import declared_for
from ragstream.domain.events import Answer
from ragstream.settings import Settings, load_settings

if TYPE_CHECKING:
    from ragstream.shadow import Selection

__all__ = ["replay"]


class Stored(StrEnum):
    """Events that can be replayed, by what they are."""

    QUERIES = "queries"
    ROUTED = "routed"
    RETRIEVED = "retrieved"
    RERANKED = "reranked"


def replay(
    kind: Annotated[Stored, typer.Option("--from-stage", help="The stored events to begin with.")],
    since: Annotated[str, typer.Option(help=TIME_HELP)],
    until: Annotated[str | None, typer.Option(help=TIME_HELP)] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", help="This query_id only; repeatable.")
    ] = None,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Into the real topics: the running workers answer anew."),
    ] = False,
    shadow: Annotated[
        str | None, typer.Option(help="Prefix of the shadow's topics, instead of a new one.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the shadow's answer events, a line each.")
    ] = False,
) -> None:
    """Run stored events again, for instance with another model or prompt.

    By default in a shadow: topics, outcomes and caches of its own, and the stages in this process
    with the settings of this process; nothing reaches those who wait for answers. With --publish
    each query becomes a further generation of itself on the real topics, once. Exit code 5 when
    there is nothing to replay.

    Example: [bold]ragstream replay --from-stage retrieved --since 2h[/]
    """
    from ragstream.shadow import Selection, publish_again  # takes seconds to import

    if publish and (shadow or as_json):
        raise typer.BadParameter("--shadow and --json go without --publish")
    settings = load_settings()
    selection = Selection(
        kind.value, point_in_time(since), point_in_time(until), frozenset(query or ())
    )
    if publish:
        done = asyncio.run(publish_again(settings, selection))
        out.print(str(done))
        raise typer.Exit(0 if done.published or done.already else NOTHING_FOUND)
    prefix = shadow or f"{settings.kafka.prefix}-{datetime.now(UTC):%Y%m%dt%H%M%S}"
    raise typer.Exit(asyncio.run(_shadow(settings, prefix, selection, as_json=as_json)))


async def _shadow(settings: Settings, prefix: str, selection: Selection, *, as_json: bool) -> int:
    from ragstream.shadow import Shadow, stages_from

    shadow = Shadow(settings, prefix)
    err.print(f"shadow {prefix}: {', '.join(stages_from(selection.kind))}")
    await shadow.prepare(declared_for(shadow.settings))
    before = {} if as_json else await shadow.earlier(selection)
    changes: Counter[str] = Counter()
    async for answer in shadow.run(selection):
        if as_json:
            out.print(orjson.dumps(answer.model_dump(exclude_none=True)).decode(), markup=False)
            continue
        change = _change(before.get((answer.tenant, answer.query_id)), answer)
        changes[change] += 1
        out.print(Text(f"{answer.query_id}  {answer.status.value}  {change}"))
    err.print(str(shadow.done))
    for change, count in sorted(changes.items()):
        out.print(f"{count} {change}")
    return 0 if shadow.done.published or shadow.done.already else NOTHING_FOUND


def _change(before: Answer | None, now: Answer) -> str:
    if before is None:
        return "no earlier answer"
    if before.status is not now.status:
        return f"was {before.status.value}"
    return "same text" if before.text == now.text else "other text"
