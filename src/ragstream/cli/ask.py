"""``ragstream ask``: one question, its answer as it comes."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from ragstream.cli.console import err, out
from ragstream.cli.exits import FAILED, NO_ANSWER, NOTHING_FOUND, WRONG
from ragstream.client import GRACE, Client, QueryRejected
from ragstream.connection import kafka_connection
from ragstream.domain.events import Answer, AnswerDelta, AnswerStatus
from ragstream.settings import Settings, load_settings

__all__ = ["ask", "print_citations", "print_timings"]

_CODES = {
    AnswerStatus.ANSWERED: 0,
    AnswerStatus.NO_CONTEXT: NOTHING_FOUND,
    AnswerStatus.FAILED: FAILED,
    AnswerStatus.CANCELLED: FAILED,
}


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer event, nothing else.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            help="The query's deadline in seconds; its failure is waited for a little longer.",
            min=0,
            max=86_400,
        ),
    ] = 60,
    tenant: Annotated[str, typer.Option(help="Whose documents.")] = "default",
    user: Annotated[str | None, typer.Option(help="Who asks.")] = None,
    conversation: Annotated[str | None, typer.Option(help="Conversation to continue.")] = None,
    route: Annotated[str | None, typer.Option(help="Route, instead of detecting it.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Documents to keep.", min=1, max=100)] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="FIELD=VALUE of the metadata; repeatable.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write it.")
    ] = False,
) -> None:
    """Ask a question over Kafka: the answer, its citations, and where the time went.

    Example: [bold]ragstream ask "What is the default of acks in Kafka 2.8?" --json[/]
    """
    if not question:
        raise typer.BadParameter("the question is empty", param_hint="QUESTION")
    fields: dict[str, Any] = {
        "tenant": tenant,
        "user_id": user,
        "conversation_id": conversation,
        "route": route,
        "top_k": top_k,
        "filters": dict(map(_filter, filters or [])),
        "cache": "bypass" if no_cache else "use",
    }
    given = {name: value for name, value in fields.items() if value is not None}
    raise typer.Exit(asyncio.run(_ask(load_settings(), question, timeout, given, as_json)))


async def _ask(
    settings: Settings, question: str, timeout: float, fields: dict[str, Any], as_json: bool
) -> int:
    connection = kafka_connection(settings)
    async with Client.connect(connection, prefix=settings.kafka.prefix) as client:
        try:
            answer = await _follow(client, question, timeout, fields, quiet=as_json)
        except QueryRejected as error:
            err.print(f"[red]rejected:[/] {escape(str(error))}")
            return WRONG
        except TimeoutError:
            err.print(
                f"no answer within {timeout:g} s, nor news of a failure {GRACE:g} s later "
                "(is a worker running?)"
            )
            return NO_ANSWER
    if as_json:
        sys.stdout.buffer.write(
            orjson.dumps(answer.model_dump(by_alias=True), option=orjson.OPT_UTC_Z)
        )
        sys.stdout.buffer.write(b"\n")
    else:
        print_citations(answer)
        print_timings(answer)
    return _CODES[answer.status]


async def _follow(
    client: Client, question: str, timeout: float, fields: dict[str, Any], *, quiet: bool
) -> Answer:
    """Print the text as it comes, and end with the answer."""
    shown = ""
    attempt = None
    async for item in client.stream(question, timeout=timeout, **fields):
        if isinstance(item, AnswerDelta):
            if quiet:
                continue
            if attempt not in (None, item.attempt):
                out.print("\n[dim](starting over)[/]")
                shown = ""
            attempt = item.attempt
            shown += item.text
            out.print(item.text, end="", markup=False)
        else:
            if not quiet:
                _complete(item, shown)
            return item
    raise RuntimeError("the stream ended without an answer")


def _complete(answer: Answer, shown: str) -> None:
    """Bring what was shown up to the final text."""
    if answer.failure is not None:
        failure = answer.failure
        again = "may succeed if asked again" if failure.retryable else "will fail again"
        out.print(
            f"\n[red]failed in {failure.stage}:[/] {escape(failure.message)} "
            f"({failure.code}; {again})"
        )
    elif answer.text.startswith(shown.strip()):
        out.print(answer.text[len(shown.strip()) :], markup=False)
    else:
        out.print()
        out.print(answer.text, markup=False)


def print_citations(answer: Answer) -> None:
    """The citations and what there is to say about the answer as a whole."""
    for citation in answer.citations:
        place = f"{citation.url or citation.document_id}"
        if citation.url and citation.anchor:
            place = f"{place}#{citation.anchor}"
        release = ""
        if (version := citation.version) is not None:
            relation = "" if version.exact else f", requested {', '.join(version.requested)}"
            release = f" ({version.product} {version.evidence}{relation})"
        title = escape(citation.title or citation.document_id)
        out.print(
            f"\\[{citation.number}] [bold]{title}[/]{escape(release)}  [dim]{escape(place)}[/]"
        )
    if answer.model == "extractive":
        out.print("[dim]extractive: sentences of the documents, no language model is configured[/]")
    if answer.degraded:
        out.print(f"[yellow]degraded:[/] {escape(', '.join(answer.degraded))}")


def print_timings(answer: Answer) -> None:
    """Where the time went."""
    table = Table("stage", "waited ms", "worked ms", box=None, header_style="dim", style="dim")
    for timing in answer.timings:
        table.add_row(timing.stage, f"{timing.queued_ms:.1f}", f"{timing.work_ms:.1f}")
    total = (answer.completed_at - answer.accepted_at).total_seconds() * 1000
    source = f"from the cache ({answer.cache})" if answer.cache else answer.model or ""
    table.add_row("all", "", f"{total:.1f}  {escape(source)}")
    out.print(table)


def _filter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} must be FIELD=VALUE", param_hint="--filter")
    return name, value.split(",") if "," in value else value
