"""``ragstream demo``: the main job from nothing to a cited answer, on real parts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ragstream.adapters.kafka import KafkaBus
from ragstream.cli import interrupt
from ragstream.cli.ask import print_citations, print_timings
from ragstream.cli.console import out
from ragstream.cli.exits import FAILED
from ragstream.cli.ingest import ingest_paths
from ragstream.cli.topics import apply_topics
from ragstream.client import Client
from ragstream.connection import kafka_connection
from ragstream.devstack import process
from ragstream.devstack.process import Server
from ragstream.devstack.stack import Stack
from ragstream.devstack.state import Endpoints
from ragstream.domain.errors import ConfigurationError, DependencyUnavailable
from ragstream.domain.events import Answer, AnswerStatus, CacheMode
from ragstream.domain.records import InboundRecord
from ragstream.domain.topics import Topics
from ragstream.settings import Settings, load_settings
from ragstream.sources import read_documents

__all__ = ["demo"]

QUESTION = "How many seconds does a query have when it names no deadline?"
STATE = Path(".ragstream/demo")
#: The first question goes all the way, even where an earlier run left its answer in the cache.
ASKED = (("asked for the first time", CacheMode.REFRESH), ("asked again", CacheMode.USE))


def demo(
    question: Annotated[str, typer.Argument(help="What to ask.")] = QUESTION,
    corpus: Annotated[
        list[Path] | None, typer.Option(help="Files or folders to index; README.md and docs/.")
    ] = None,
    state: Annotated[Path, typer.Option(help="Folder of the stack's data.")] = STATE,
) -> None:
    """Start everything, index the project's own documentation, ask, and stop everything.

    Example: [bold]ragstream demo "What is a dead-letter topic?"[/]
    """
    paths = corpus or [path for path in (Path("README.md"), Path("docs")) if path.exists()]
    if not paths:
        raise ConfigurationError(
            "there is no README.md and no docs/ here: name files with --corpus"
        )
    raise typer.Exit(interrupt.run(_demo(question, paths, state)))


async def _demo(question: str, paths: list[Path], state: Path) -> int:
    async with Stack(state, report=_say) as stack:
        endpoints = stack.endpoints
        if endpoints.kafka is None:
            _say(f"no Kafka: {endpoints.reason}; going on with the in-memory bus")
            return await _demo_in_process(question, paths, endpoints)
        environment = endpoints.environment()
        settings = _settings(endpoints)
        await apply_topics(settings, quiet=True)
        async with _worker(stack.state / "logs" / "worker.log", environment):
            code = await ingest_paths(settings, paths, {"kind": "docs"}, {})
            if code:
                return code
            return await _ask_twice(settings, question)


async def _ask_twice(settings: Settings, question: str) -> int:
    """The second answer comes from the cache."""
    connection = kafka_connection(settings)
    topics = Topics(settings.kafka.prefix)
    on_the_way = [topics.queries, topics.routed, topics.retrieved, topics.reranked, topics.answers]
    bus = KafkaBus(connection)
    statuses = []
    try:
        async with Client.connect(connection, prefix=settings.kafka.prefix) as client:
            for title, cache in ASKED:
                async with bus.tail(on_the_way) as records:
                    answer = await client.ask(question, timeout=60, cache=cache)
                    _show(title, answer)
                    await _show_way(records, answer)
                    statuses.append((answer.status, answer.cache))
    finally:
        await bus.aclose()
    good = statuses[0][0] is AnswerStatus.ANSWERED and statuses[1][1] is not None
    return 0 if good else FAILED


async def _demo_in_process(question: str, paths: list[Path], endpoints: Endpoints) -> int:
    from ragstream.serve import in_process  # the whole pipeline: takes seconds to import

    settings = _settings(endpoints)
    documents = [
        item for path in paths for item in read_documents(path, base={"kind": "docs"}, metadata={})
    ]
    async with in_process(settings) as pipeline:
        await pipeline.ingest([item for item in documents if not isinstance(item, Exception)])
        answers = [
            await pipeline.client.ask(question, timeout=60, cache=cache) for _, cache in ASKED
        ]
    for (title, _), answer in zip(ASKED, answers, strict=True):
        _show(title, answer)
    return 0 if answers[0].status is AnswerStatus.ANSWERED and answers[1].cache else FAILED


@asynccontextmanager
async def _worker(log: Path, environment: dict[str, str]) -> AsyncIterator[None]:
    """A worker process for as long as the context lasts; ready on entry."""
    _say("worker: starting all stages")
    server = await process.spawn(
        "worker",
        [sys.executable, "-m", "ragstream", "worker"],
        log=log,
        environment={**environment, "RAGSTREAM_WORKER__HEALTH_PORT": "0"},
        folder=Path.cwd(),
    )
    try:
        await _until_ready(server)
        _say("worker: ready")
        yield
    finally:
        await server.stop()


def _settings(endpoints: Endpoints) -> Settings:
    """Settings that lead to this stack, whatever else the environment says."""
    kafka = {} if endpoints.kafka is None else {"bootstrap_servers": endpoints.kafka}
    return load_settings(
        kafka=kafka,
        redis={"url": endpoints.redis},
        postgres={"dsn": endpoints.postgres},
        qdrant={"url": endpoints.qdrant},
    )


async def _until_ready(server: Server) -> None:
    for _ in range(600):
        text = await asyncio.to_thread(server.log.read_text, errors="replace")
        if "ready: " in text:
            return
        if server.process.returncode is not None:
            raise server.died()
        await asyncio.sleep(0.1)
    raise DependencyUnavailable("worker", f"not ready after a minute (log: {server.log})")


def _show(title: str, answer: Answer) -> None:
    out.rule(title, align="left")
    out.print(f"[dim]{answer.question}[/]\n")
    out.print(answer.text or (answer.failure.message if answer.failure else ""), markup=False)
    out.print()
    print_citations(answer)
    print_timings(answer)


async def _show_way(records: AsyncIterator[InboundRecord], answer: Answer) -> None:
    """Where the query's records stand on Kafka."""
    table = Table("topic", "partition", "offset", box=None, header_style="dim", style="dim")
    async with asyncio.timeout(10):
        async for record in records:
            if (record.header("ce_subject") or b"").decode() == answer.query_id:
                table.add_row(record.topic, str(record.partition), str(record.offset))
                if ".answers." in record.topic:
                    break
    out.print(table)


def _say(message: str) -> None:
    out.print(message, markup=False, style="dim")
