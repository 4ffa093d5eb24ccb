"""Stored events through the stages again, beside the real pipeline.

A shadow has topics, consumer groups, outcomes, history and caches of its own under another prefix;
it reads the same documents. Nobody who waits for answers hears of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime

from ragstream.adapters import postgres
from ragstream.adapters.kafka import KafkaBus
from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.adapters.kafka_log import read_log
from ragstream.connection import kafka_connection, open_database
from ragstream.delivery.replay import Replayed, Replayer, query_of, stored_place
from ragstream.domain.declarations import CONSUMERS, TopicDeclaration, groups
from ragstream.domain.errors import ConfigurationError, InvalidEvent
from ragstream.domain.events import Answer
from ragstream.domain.ports import Publisher
from ragstream.domain.records import InboundRecord
from ragstream.domain.topics import Topics
from ragstream.pipeline import STAGES
from ragstream.serve import run_worker
from ragstream.settings import Settings
from ragstream.wire import decode

__all__ = ["Selection", "Shadow", "publish_again", "stages_from"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Stored events: of a ``kind`` (queries, routed, …), within a span of time, of some queries
    (of all, if none is named). Of each query the first one only: what follows are repeats of it,
    and its replays."""

    kind: str
    since: datetime | None = None
    until: datetime | None = None
    query_ids: frozenset[str] = frozenset()

    async def records(self, settings: Settings) -> AsyncIterator[InboundRecord]:
        topic = Topics(settings.kafka.prefix).named(self.kind)
        records = read_log(kafka_connection(settings), [topic], since=self.since, until=self.until)
        seen: set[tuple[str, str | None]] = set()
        async for record in records:
            query = query_of(record)
            if query in seen or (self.query_ids and query[1] not in self.query_ids):
                continue
            if query[1] is not None:
                seen.add(query)
            yield record


def stages_from(kind: str) -> tuple[str, ...]:
    """The stages that lie behind events of a kind, history included."""
    return (*STAGES[STAGES.index(CONSUMERS[kind]) : STAGES.index("answer") + 1], "history")


async def publish_again(settings: Settings, selection: Selection) -> Replayed:
    """Publish stored events to the topic that they stand in: the workers answer them anew, each
    as a further generation of its query. What was published again before is left out."""
    async with AsyncExitStack() as stack:
        bus = KafkaBus(kafka_connection(settings), timeout=settings.kafka.publish_timeout)
        stack.push_async_callback(bus.aclose)
        replayer = await _replayer(settings, bus, stack)
        topic = Topics(settings.kafka.prefix).named(selection.kind)
        async for record in selection.records(settings):
            await replayer.replay(record, topic=topic, replay_id=stored_place(record))
        return replayer.done


class Shadow:
    """A shadow of the pipeline of ``settings``."""

    def __init__(self, settings: Settings, prefix: str) -> None:
        self._original = settings
        self.settings = _apart(settings, prefix)
        self.topics = Topics(prefix)
        self.done = Replayed()

    async def prepare(self, declared: Iterable[TopicDeclaration]) -> None:
        """Make the topics, ``declared`` under the shadow's prefix."""
        declared = list(declared)
        async with TopicAdmin(kafka_connection(self.settings)) as admin:
            await admin.apply(declared)
            await admin.initialise_groups(groups(declared))

    async def run(self, selection: Selection) -> AsyncIterator[Answer]:
        """Run the selected events through the stages behind them, in this process, and give each
        outcome as it comes. Ends when every event has its own."""
        async with AsyncExitStack() as stack:
            bus = KafkaBus(
                kafka_connection(self.settings), timeout=self.settings.kafka.publish_timeout
            )
            stack.push_async_callback(bus.aclose)
            replayer = await _replayer(self.settings, bus, stack)
            self.done = replayer.done
            answers = await stack.enter_async_context(bus.tail([self.topics.answers]))
            waiting: set[tuple[str, str]] = set()
            target = self.topics.named(selection.kind)
            async for record in selection.records(self._original):
                tenant, query_id = query_of(record)
                place = stored_place(record)
                published = await replayer.replay(record, topic=target, replay_id=place)
                if published and query_id is not None:
                    waiting.add((tenant, query_id))
            stop = asyncio.Event()
            worker = asyncio.create_task(
                run_worker(self.settings, stages_from(selection.kind), stop=stop, replies=False)
            )
            try:
                while waiting:
                    answer = await _next(answers, worker)
                    if (answer.tenant, answer.query_id) in waiting:
                        waiting.remove((answer.tenant, answer.query_id))
                        yield answer
            finally:
                stop.set()
                await asyncio.wait([worker])

    async def earlier(self, selection: Selection) -> dict[tuple[str, str], Answer]:
        """The real pipeline's answers since the selection begins, by (tenant, query_id); the
        latest generation of each."""
        topic = Topics(self._original.kafka.prefix).answers
        found: dict[tuple[str, str], Answer] = {}
        async for record in read_log(
            kafka_connection(self._original), [topic], since=selection.since
        ):
            try:
                answer, _ = decode(record, Answer)
            except InvalidEvent:
                continue
            key = answer.tenant, answer.query_id
            if key not in found or found[key].generation <= answer.generation:
                found[key] = answer
        return found


async def _next(answers: AsyncIterator[InboundRecord], worker: asyncio.Task[None]) -> Answer:
    """The next outcome, or what ended the worker."""
    coming = asyncio.ensure_future(anext(answers))
    await asyncio.wait([coming, worker], return_when=asyncio.FIRST_COMPLETED)
    if not coming.done():
        coming.cancel()
        await asyncio.wait([coming])
        worker.result()
        raise ConfigurationError("the shadow's worker stopped by itself")
    answer, _ = decode(coming.result(), Answer)
    return answer


async def _replayer(settings: Settings, publisher: Publisher, stack: AsyncExitStack) -> Replayer:
    database = open_database(settings, stack)
    await postgres.migrate(database)
    return Replayer(publisher, postgres.PostgresReplays(database))


def _apart(settings: Settings, prefix: str) -> Settings:
    """The settings with another place for everything that is written."""
    if prefix == settings.kafka.prefix:
        raise ConfigurationError(f"{prefix}: a shadow needs a prefix of its own")
    schema = re.sub("[^a-z0-9_]", "_", prefix.lower())
    sections = {
        "kafka": {"prefix": prefix},
        "redis": {"prefix": prefix},
        "postgres": {"schema_name": schema if schema[0].isalpha() else f"s_{schema}"},
        "worker": {"health_port": 0},
    }
    return settings.model_copy(
        update={
            name: getattr(settings, name).model_copy(update=update)
            for name, update in sections.items()
        }
    )
