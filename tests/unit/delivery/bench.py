"""A query stage on the in-memory bus and ledger, for tests of what happens around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import orjson

from ragstream.adapters.memory import MemoryBus
from ragstream.adapters.memory_state import MemoryLedger, MemoryMarks
from ragstream.delivery.cancellation import Cancellations
from ragstream.delivery.dispatcher import Lease
from ragstream.delivery.queries import QueryHandler, QueryStep, Services
from ragstream.delivery.retry import Backoff
from ragstream.domain.events import Answer, Job, Routed, Routing
from ragstream.domain.records import InboundRecord, TopicPartition
from ragstream.domain.topics import Topics
from ragstream.pipeline import _accepted
from ragstream.stages.route import Acceptance

TOPICS = Topics("test")
START = datetime(2026, 1, 10, 12, tzinfo=UTC)
Run = Callable[[Job], Awaitable[Job | Answer]]


class FakeClock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


class Bench:
    """A stage between ``queries`` and ``routed``."""

    def __init__(
        self,
        run: Run,
        *,
        concurrency: int = 64,
        reply_prefix: str | None = None,
        failure_limit: int = 100,
    ) -> None:
        self.bus = MemoryBus(TOPICS.all())
        self.clock = FakeClock()
        self.calls = 0
        self.cancellations = Cancellations()
        self.services = Services(
            topics=TOPICS,
            ledger=MemoryLedger(),
            publisher=self.bus,
            marks=MemoryMarks(),
            cancellations=self.cancellations,
            clock=self.clock,
            backoff=Backoff(base=0.001, limit=0.002),
            failure_limit=failure_limit,
        )

        async def counted(job: Job) -> Job | Answer:
            self.calls += 1
            return await run(job)

        self.step = QueryStep(
            "route",
            TOPICS.queries,
            TOPICS.routed,
            _accepted(Acceptance(frozenset({"DOCS"}), reply_prefix=reply_prefix)),
            counted,
            concurrency,
        )
        self.handler = QueryHandler(self.step, self.services)
        self.lease = Lease(TopicPartition(TOPICS.queries, 0))

    async def handle(self, value: object, *, offset: int = 42, **fields: object) -> None:
        raw = value if isinstance(value, bytes) else orjson.dumps(value)
        record = InboundRecord(
            TOPICS.queries,
            0,
            offset,
            START.timestamp(),
            b"k",
            raw,
            **fields,  # type: ignore[arg-type]
        )
        await self.handler(record, self.lease)

    def answers(self) -> list[InboundRecord]:
        return self.bus.records(TOPICS.answers)

    def answer(self) -> Answer:
        (record,) = self.answers()
        return Answer.model_validate_json(record.value or b"")

    def dead(self) -> list[InboundRecord]:
        return self.bus.records(TOPICS.dlt(TOPICS.queries))


def question(**fields: object) -> dict[str, object]:
    return {"query_id": "q1", "text": "What?", **fields}


async def route(job: Job) -> Job | Answer:
    routing = Routing(route="DOCS", decided_by="default", collections=("docs",), search_text="x")
    return Routed.model_validate({**dict(job), "routing": routing})


def raising(*errors: Exception) -> Run:
    left = list(errors)

    async def run(job: Job) -> Job | Answer:
        if left:
            raise left.pop(0)
        return await route(job)

    return run
