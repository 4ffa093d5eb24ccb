"""ragstream's own path of a record, with stages that do nothing.

Everything between the topics is what a worker runs: FaustRunner, dispatcher, handler, wire format
with validation of every event, publisher with confirmation. Ledger and marks are in memory, as the
peers have none, or in Postgres and Valkey.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers.common import Order, order, quiet, termination
from ragstream.adapters import memory_state, postgres, redis
from ragstream.adapters.clock import SystemClock
from ragstream.adapters.kafka import KafkaConnection, KafkaPublisher
from ragstream.delivery.cancellation import Cancellations
from ragstream.delivery.dispatcher import Window
from ragstream.delivery.queries import Services
from ragstream.delivery.retry import Backoff
from ragstream.domain.events import (
    Answer,
    AnswerStatus,
    Evidence,
    Job,
    Reranked,
    Retrieved,
    Routed,
    Routing,
)
from ragstream.domain.ports import Marks
from ragstream.domain.topics import Topics
from ragstream.pipeline import Stages, StageUnit, build_units, floor_plan
from ragstream.stages.route import Acceptance
from ragstream.worker import FaustRunner

ROUTING = Routing(route="docs", decided_by="default", collections=("docs",), search_text="")


async def route(job: Job) -> Routed:
    return Routed(**_fields(job), routing=ROUTING)


async def retrieve(job: Routed) -> Retrieved:
    return Retrieved(**_fields(job), evidence=Evidence())


async def rerank(job: Retrieved) -> Reranked:
    return Reranked(**_fields(job))


async def answer(job: Reranked) -> Answer:
    query = job.query
    return Answer(
        query_id=query.query_id,
        tenant=query.tenant,
        question=query.text,
        status=AnswerStatus.ANSWERED,
        text="yes",
        route=job.routing.route,
        generation=job.generation,
        accepted_at=job.accepted_at,
        completed_at=datetime.now(UTC),
        timings=job.timings,
    )


def _fields(job: Job) -> dict[str, Any]:
    """The fields of a job as they are: nothing is copied or validated twice."""
    return {name: getattr(job, name) for name in type(job).model_fields}


def slowed(
    stage: Callable[[Any], Awaitable[Any]], seconds: float
) -> Callable[[Any], Awaitable[Any]]:
    async def wait_first(job: Any) -> Any:
        await asyncio.sleep(seconds)
        return await stage(job)

    return wait_first


async def build(given: Order, resources: AsyncExitStack) -> list[StageUnit]:
    topics = Topics(given.prefix)
    publisher = KafkaPublisher(KafkaConnection(given.kafka))
    resources.push_async_callback(publisher.aclose)
    await publisher.start()
    services = Services(
        topics=topics,
        publisher=publisher,
        cancellations=Cancellations(),
        clock=SystemClock(),
        backoff=Backoff(),
        ledger=await _ledger(given, resources),
        marks=_marks(given, resources),
    )
    parts = [route, retrieve, rerank, answer]
    if given.work:
        parts[given.slow] = slowed(parts[given.slow], given.work)
    steps = floor_plan(topics, Stages(*parts), Acceptance(frozenset({"docs"})))
    window = Window(records=given.window) if given.window else Window()
    if given.concurrency:
        steps[given.slow] = replace(steps[given.slow], concurrency=given.concurrency)
    return build_units(steps, services, window=window)


async def _ledger(given: Order, resources: AsyncExitStack) -> Any:
    if given.postgres is None:
        return memory_state.MemoryLedger()
    database = postgres.Database(given.postgres, schema=given.prefix)
    resources.push_async_callback(database.aclose)
    await postgres.migrate(database)
    return postgres.PostgresLedger(database)


def _marks(given: Order, resources: AsyncExitStack) -> Marks:
    if given.redis is None:
        return memory_state.MemoryMarks()
    connection = redis.connect(given.redis, prefix=given.prefix)
    resources.push_async_callback(connection.aclose)
    return redis.RedisMarks(connection)


def tell_statistics(path: str) -> None:
    """Write what only the process itself knows, when asked by SIGUSR1."""

    def write() -> None:
        found = {"pid": os.getpid(), "tasks": len(asyncio.all_tasks())}
        Path(path).write_text(json.dumps(found))

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, write)


async def main() -> None:
    quiet()
    stop, given = termination(), order()
    if given.statistics:
        tell_statistics(given.statistics)
    async with AsyncExitStack() as resources:
        units = await build(given, resources)
        runner = FaustRunner(KafkaConnection(given.kafka), units)
        await runner.start()
        stopping = asyncio.create_task(stop.wait())
        failing = asyncio.create_task(runner.wait_failed())
        await asyncio.wait([stopping, failing], return_when=asyncio.FIRST_COMPLETED)
        await runner.stop()
        if failing.done():
            raise failing.result()


if __name__ == "__main__":
    asyncio.run(main())
