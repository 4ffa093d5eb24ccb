"""Dead letters and stored events, published again."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from ragstream.adapters.memory import MemoryBus
from ragstream.adapters.memory_state import MemoryReplays
from ragstream.delivery.deadletter import dead_letter
from ragstream.delivery.replay import Letter, Replayer, repeated
from ragstream.domain.errors import ConflictingRequest, DependencyUnavailable, InvalidEvent
from ragstream.domain.events import Job, Query, Routed, Routing
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.pipeline import Stages, floor_plan
from ragstream.stages.route import Acceptance
from ragstream.wire import (
    REPLAY_ATTEMPT,
    REPLAY_GENERATION,
    REPLAY_ID,
    encode,
    fingerprint,
)
from tests.unit.delivery.bench import START, TOPICS, Bench, question, raising

DLT = TOPICS.dlt(TOPICS.queries)


def inbound(record: OutboundRecord, offset: int = 5, *, later: float = 0.0) -> InboundRecord:
    at = START.timestamp() + later
    return InboundRecord(record.topic, 1, offset, at, record.key, record.value, record.headers)


def letter(value: bytes, error: Exception | None = None, **headers: bytes) -> InboundRecord:
    failed = InboundRecord(
        TOPICS.queries, 0, 42, START.timestamp(), b"key", value, tuple(headers.items())
    )
    error = error or InvalidEvent("is missing", field="text")
    return inbound(dead_letter(failed, error, stage="route", topic=DLT))


def test_a_letter_tells_where_it_comes_from_and_why() -> None:
    read = Letter.read(letter(b'{"query_id": "q", "tenant": "acme"}'))
    assert (read.topic, read.partition, read.offset) == (TOPICS.queries, 0, 42)
    assert (read.stage, read.error, read.code) == ("route", "InvalidEvent", "invalid_event")
    assert read.message == "text: is missing"
    assert (read.tenant, read.query_id, read.attempt) == ("acme", "q", 0)
    assert read.hindrance is None


@pytest.mark.parametrize("value", [b"\x00\xff", b"[1]", b"", b'{"query_id": "a\\u0000b"}'])
def test_a_letter_without_a_query(value: bytes) -> None:
    assert Letter.read(letter(value)).query_id is None


def test_a_letter_that_somebody_else_wrote() -> None:
    read = Letter.read(InboundRecord(DLT, 2, 7, 0.0, None, b"x"))
    assert (read.topic, read.partition, read.offset) == (TOPICS.queries, 2, 7)
    assert (read.error, read.message) == ("", "")


def test_what_cannot_be_replayed_says_why() -> None:
    large = Letter.read(letter(b"x" * 5_000_000))
    assert "too large" in (large.hindrance or "")
    conflicting = Letter.read(letter(b"{}", ConflictingRequest("known", field="query_id")))
    assert "another request" in (conflicting.hindrance or "")


def test_a_repeated_record_is_what_it_was() -> None:
    record = repeated(
        letter(b"\x00value", traceparent=b"00-1-2-01"),
        topic=TOPICS.queries,
        replay_id="place",
        generation=3,
    )
    assert (record.topic, record.key, record.value) == (TOPICS.queries, b"key", b"\x00value")
    assert record.partition is None
    assert dict(record.headers) == {
        "traceparent": b"00-1-2-01",
        REPLAY_ID: b"place",
        REPLAY_GENERATION: b"3",
        REPLAY_ATTEMPT: b"1",
    }
    further = repeated(inbound(record), topic=TOPICS.queries, replay_id="other", generation=4)
    assert dict(further.headers)[REPLAY_ATTEMPT] == b"2"
    assert len(further.headers) == len(record.headers)


async def test_a_second_replay_publishes_nothing() -> None:
    bus = MemoryBus(TOPICS.all())
    replays = MemoryReplays()
    for _ in range(2):
        replayer = Replayer(bus, replays)
        await replayer.replay(letter(b"x"), topic=TOPICS.queries, replay_id="place")
    assert len(bus.records(TOPICS.queries)) == 1
    assert str(replayer.done) == "0 published, 1 had been before"


async def test_a_replay_that_was_not_confirmed_is_done_again_as_the_same_generation() -> None:
    class Down(MemoryBus):
        async def publish(self, records: object) -> None:
            raise DependencyUnavailable("kafka", "down")

    bus = MemoryBus(TOPICS.all())
    replays = MemoryReplays()
    with pytest.raises(DependencyUnavailable):
        await Replayer(Down(TOPICS.all()), replays).replay(
            letter(b"x"), topic=TOPICS.queries, replay_id="place"
        )
    await Replayer(bus, replays).replay(letter(b"x"), topic=TOPICS.queries, replay_id="place")
    (record,) = bus.records(TOPICS.queries)
    assert record.header(REPLAY_GENERATION) == b"1"


async def test_a_query_that_failed_is_answered_after_a_replay() -> None:
    bench = Bench(raising(KeyError("defect")))
    passed = (START + timedelta(seconds=30)).isoformat()
    await bench.handle(question(deadline=passed))
    assert bench.answer().failure is not None
    (dead,) = bench.dead()
    read = Letter.read(dead)
    await Replayer(bench.bus, MemoryReplays()).replay(
        dead, topic=read.topic, replay_id=read.replay_id
    )
    (again,) = bench.bus.records(TOPICS.queries)

    # An hour later: the deadline that the query named is long over.
    bench.clock.time += timedelta(hours=1)
    late = InboundRecord(
        again.topic, 0, 43, bench.clock.time.timestamp(), again.key, again.value, again.headers
    )
    await bench.handler(late, bench.lease)
    (routed,) = bench.bus.records(TOPICS.routed)
    body = orjson.loads(routed.value or b"")
    assert body["generation"] == 1
    assert body["deadline"] == "2026-01-10T13:02:00Z"
    assert routed.header("ce_generation") == b"1"
    assert routed.header(REPLAY_ID) is None  # further hops are not replays


def test_an_event_that_is_replayed_at_an_inner_stage_starts_anew() -> None:
    query = Query(query_id="q", text="What?")
    job = Job(
        query=query,
        fingerprint=fingerprint(query),
        accepted_at=START,
        deadline=START + timedelta(seconds=30),
    )
    routed = Routed.model_validate(
        {
            **dict(job),
            "routing": Routing(
                route="DOCS", decided_by="default", collections=("docs",), search_text="x"
            ),
        }
    )
    stored = inbound(
        encode(routed, topic=TOPICS.routed, key=b"k", id="i", time=START, generation=0)
    )
    again = inbound(
        repeated(stored, topic=TOPICS.routed, replay_id="p", generation=2), 6, later=3600
    )

    async def retrieve(job: Routed) -> Job:
        raise NotImplementedError

    (step,) = floor_plan(TOPICS, Stages(retrieve=retrieve), Acceptance(frozenset({"DOCS"})))
    plain, _ = step.read(stored)
    assert plain == routed
    renewed, envelope = step.read(again)
    assert isinstance(renewed, Routed)
    assert renewed.generation == envelope.generation == 2
    assert renewed.accepted_at == START + timedelta(hours=1)
    assert renewed.deadline == START + timedelta(hours=1, minutes=2)
    assert renewed.routing == routed.routing
    assert renewed.fingerprint == routed.fingerprint
