"""What happens to a query at a stage, on the in-memory bus and ledger."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from ragstream.adapters.memory import MemoryBus
from ragstream.adapters.memory_state import MemoryMarks
from ragstream.delivery.queries import LARGEST_ANSWER, QueryHandler
from ragstream.domain.errors import (
    DependencyUnavailable,
    GenerationFailed,
    LeaseRevoked,
    PartialFailure,
    PermanentError,
    TransientError,
)
from ragstream.domain.events import Answer, AnswerStatus, Job, Query
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.pipeline import _accepted
from ragstream.stages.route import Acceptance
from ragstream.wire import record_key
from tests.unit.delivery.bench import START, TOPICS, Bench, question, raising, route


async def test_a_job_goes_on_with_key_headers_and_timing() -> None:
    bench = Bench(route)
    bench.clock.time += timedelta(seconds=1)
    await bench.handle(
        question(conversation_id="c", tenant="acme"), headers=(("traceparent", b"00-1-2-01"),)
    )
    (record,) = bench.bus.records(TOPICS.routed)
    assert record.key == record_key("acme", "c")
    assert record.header("traceparent") == b"00-1-2-01"
    assert record.header("ce_type") == b"io.ragstream.routed.v1"
    body = orjson.loads(record.value or b"")
    assert body["timings"] == [{"stage": "route", "queued_ms": 1000.0, "work_ms": 0.0}]
    assert body["deadline"] == "2026-01-10T12:02:00Z"


async def test_a_repeated_input_is_not_worked_on_twice() -> None:
    bench = Bench(route)
    await bench.handle(question())
    await bench.handle(question())
    assert bench.calls == 1
    assert len(bench.bus.records(TOPICS.routed)) == 1


async def test_transient_errors_are_tried_again() -> None:
    bench = Bench(raising(TransientError("429"), DependencyUnavailable("llm", "refused")))
    await bench.handle(question())
    assert bench.calls == 3
    assert len(bench.bus.records(TOPICS.routed)) == 1


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (PermanentError("nope"), "permanent", False),
        (GenerationFailed("stream broke", retryable=True), "generation_failed", True),
    ],
)
async def test_a_permanent_error_is_the_failed_answer(
    error: Exception, code: str, retryable: bool
) -> None:
    bench = Bench(raising(error))
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert (failure.code, failure.retryable, failure.stage) == (code, retryable, "route")
    assert failure.message == str(error)
    assert bench.dead() == []


async def test_a_defect_is_answered_without_detail_and_goes_to_the_dlt() -> None:
    bench = Bench(raising(KeyError("secret")))
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert (failure.code, failure.message) == ("internal", "internal error")
    (letter,) = bench.dead()
    assert letter.value == orjson.dumps(question())
    assert letter.header("__connect.errors.topic") == TOPICS.queries.encode()
    assert letter.header("__connect.errors.offset") == b"42"
    assert letter.header("__connect.errors.exception.class.name") == b"builtins.KeyError"
    assert b"KeyError" in (letter.header("__connect.errors.exception.stacktrace") or b"")


async def test_an_expired_query_is_not_worked_on() -> None:
    bench = Bench(route)
    bench.clock.time += timedelta(minutes=3)
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert failure.code == "deadline_exceeded"
    assert bench.calls == 0


async def test_a_stage_that_takes_too_long_is_ended_at_the_deadline() -> None:
    async def slow(_job: Job) -> Job | Answer:
        await asyncio.sleep(60)
        raise AssertionError

    bench = Bench(slow)
    await bench.handle(question(deadline=(START + timedelta(seconds=0.02)).isoformat()))
    failure = bench.answer().failure
    assert failure is not None
    assert failure.code == "deadline_exceeded"


async def test_an_outage_past_the_deadline_says_what_was_down() -> None:
    bench: Bench

    async def down(_job: Job) -> Job | Answer:
        bench.clock.time += timedelta(minutes=1)
        raise DependencyUnavailable("qdrant", "connection refused")

    bench = Bench(down)
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert "qdrant: connection refused" in failure.message
    assert bench.calls == 2


async def test_a_wait_that_was_asked_for_ends_with_the_deadline() -> None:
    bench: Bench

    async def busy(_job: Job) -> Job | Answer:
        bench.clock.time += timedelta(seconds=119.99)
        raise TransientError("429", retry_after=50)

    bench = Bench(busy)
    async with asyncio.timeout(5):
        await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert failure.code == "deadline_exceeded"


async def test_what_waits_for_its_turn_makes_no_call_while_the_dependency_is_down() -> None:
    bench: Bench
    seen: list[str | None] = []

    async def down(job: Job) -> Job | Answer:
        seen.append(bench.handler.paused)
        await asyncio.sleep(0)
        if len(seen) == 1:
            raise DependencyUnavailable("qdrant", "refused")
        return await route(job)

    bench = Bench(down, concurrency=1)
    waiting = [bench.handle(question(query_id=f"q{number}")) for number in range(3)]
    await asyncio.gather(*waiting)
    assert seen == [None, "qdrant: refused", None, None]


async def test_collections_that_are_away_pause_the_stage() -> None:
    bench: Bench
    reasons: list[str | None] = []
    away = PartialFailure({"docs": DependencyUnavailable("qdrant", "refused", retry_after=0.001)})

    async def down_once(job: Job) -> Job | Answer:
        reasons.append(bench.handler.paused)
        if len(reasons) == 1:
            raise away
        return await route(job)

    bench = Bench(down_once)
    await bench.handle(question())
    assert reasons == [None, f"qdrant: {away}"]
    assert bench.handler.paused is None
    assert len(bench.bus.records(TOPICS.routed)) == 1


async def test_a_collection_that_is_wrong_fails_the_answer() -> None:
    causes = {"docs": PermanentError("bad"), "pdfs": DependencyUnavailable("qdrant", "refused")}
    bench = Bench(raising(PartialFailure(causes)))
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert (failure.code, failure.retryable) == ("partial_failure", False)
    assert bench.handler.paused is None


async def test_who_asks_again_gets_the_same_bytes() -> None:
    bench = Bench(raising(PermanentError("nope")))
    await bench.handle(question())
    bench.clock.time += timedelta(hours=1)  # even past the deadline
    await bench.handle(question(), offset=43)
    first, second = bench.answers()
    assert (first.value, first.key, first.headers) == (second.value, second.key, second.headers)
    assert bench.calls == 1


async def test_redelivery_of_what_is_published_is_not_published_again() -> None:
    bench = Bench(raising(PermanentError("nope")))
    for offset in (42, 42, 43, 43):
        await bench.handle(question(), offset=offset)
    assert len(bench.answers()) == 2


async def test_redelivery_whose_mark_is_lost_publishes_the_same_bytes() -> None:
    bench = Bench(raising(PermanentError("nope")))
    await bench.handle(question())
    services = replace(bench.services, marks=MemoryMarks())
    bench.handler = QueryHandler(bench.step, services)
    await bench.handle(question())
    first, second = bench.answers()
    assert (first.value, first.key, first.headers) == (second.value, second.key, second.headers)
    assert bench.calls == 1


async def test_another_request_under_a_known_id_is_rejected_and_sees_nothing() -> None:
    bench = Bench(raising(PermanentError("nope")))
    await bench.handle(question())
    await bench.handle(question(text="Something else?"))
    assert len(bench.answers()) == 1
    (rejection,) = bench.bus.records(TOPICS.rejections)
    body = orjson.loads(rejection.value or b"")
    assert (body["query_id"], body["code"]) == ("q1", "conflicting_request")
    assert len(bench.dead()) == 1


async def test_another_request_under_an_id_on_its_way_is_no_repeat_of_it() -> None:
    bench = Bench(route)
    await bench.handle(question())
    await bench.handle(question(text="Something else?"))
    assert bench.calls == 2  # which of them is answered is decided at the end, by the ledger
    assert len(bench.bus.records(TOPICS.routed)) == 2


async def test_the_same_id_of_another_tenant_is_another_query() -> None:
    bench = Bench(raising(PermanentError("one"), PermanentError("two")))
    await bench.handle(question())
    await bench.handle(question(tenant="other"))
    assert len(bench.answers()) == 2


async def test_a_later_deadline_is_the_same_request() -> None:
    bench = Bench(raising(PermanentError("nope")))
    await bench.handle(question())
    await bench.handle(question(deadline="2026-01-10T12:01:00Z"), offset=43)
    assert len(bench.answers()) == 2
    assert bench.dead() == []


async def test_a_new_generation_is_worked_on_anew() -> None:
    bench = Bench(raising(PermanentError("nope")))
    await bench.handle(question())
    headers = (
        ("ce_specversion", b"1.0"),
        ("ce_type", b"io.ragstream.query.v1"),
        ("ce_id", b"1"),
        ("ce_source", b"replay"),
        ("ce_generation", b"1"),
    )
    await bench.handle(question(), headers=headers)
    assert bench.calls == 2
    (record,) = bench.bus.records(TOPICS.routed)
    assert record.header("ce_generation") == b"1"


async def test_what_is_not_a_query_goes_to_the_dlt_and_is_rejected_if_it_has_an_id() -> None:
    bench = Bench(route)
    await bench.handle(b"\xff\xfe not json")
    await bench.handle({"query_id": "q9", "text": "x", "top_k": -1})
    assert bench.calls == 0
    assert len(bench.dead()) == 2
    (rejection,) = bench.bus.records(TOPICS.rejections)
    body = orjson.loads(rejection.value or b"")
    assert (body["query_id"], body["field"]) == ("q9", "top_k")
    assert (body["partition"], body["offset"]) == (0, 42)


@pytest.mark.parametrize("value", [None, b""], ids=["tombstone", "empty"])
async def test_no_value_stays_what_it_was_in_the_dlt(value: bytes | None) -> None:
    bench = Bench(route)
    record = InboundRecord(TOPICS.queries, 0, 42, START.timestamp(), b"k", value)
    await bench.handler(record, bench.lease)
    (letter,) = bench.dead()
    assert (letter.key, letter.value) == (b"k", value)


async def test_a_name_that_is_no_text_goes_to_the_dlt() -> None:
    bench = Bench(route)
    await bench.handle(rb'{"\ud800": 1, "\ud800": 2}')
    (letter,) = bench.dead()
    assert letter.header("__connect.errors.exception.message") == rb"\ud800: the key occurs twice"


async def test_a_record_that_breaks_the_reader_does_not_stop_the_stage() -> None:
    bench = Bench(route)
    record = InboundRecord(TOPICS.queries, 0, 42, 1e30, b"k", orjson.dumps(question()))
    await bench.handler(record, bench.lease)
    (letter,) = bench.dead()
    assert letter.header("__connect.errors.exception.code") == b"internal"


async def test_a_deadline_before_all_time_is_over() -> None:
    bench = Bench(route)
    await bench.handle(question(deadline="0001-01-01T00:00:00+12:00"))
    failure = bench.answer().failure
    assert failure is not None
    assert failure.code == "deadline_exceeded"


async def test_cancelled_before_it_came() -> None:
    bench = Bench(route)
    await bench.services.marks.cancel("default", "q1", ttl=60)
    await bench.handle(question())
    assert bench.answer().status is AnswerStatus.CANCELLED
    assert bench.calls == 0


async def test_cancelled_while_it_is_worked_on() -> None:
    started = asyncio.Event()

    async def endless(_job: Job) -> Job | Answer:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench = Bench(endless)
    working = asyncio.create_task(bench.handle(question()))
    await started.wait()
    assert not bench.cancellations.cancel("other-tenant", "q1")
    assert bench.cancellations.cancel("default", "q1")
    await working
    assert bench.answer().status is AnswerStatus.CANCELLED


async def test_a_shutdown_is_not_a_cancelled_query() -> None:
    started = asyncio.Event()

    async def endless(_job: Job) -> Job | Answer:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench = Bench(endless)
    working = asyncio.create_task(bench.handle(question()))
    await started.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert bench.answers() == []


class _Refusing:
    """A publisher that refuses the first calls."""

    def __init__(self, bus: MemoryBus, failures: list[Exception]) -> None:
        self.bus = bus
        self.failures = failures

    async def publish(self, records: list[OutboundRecord]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        await self.bus.publish(records)


def with_publisher(bench: Bench, failures: list[Exception]) -> None:
    object.__setattr__(bench.services, "publisher", _Refusing(bench.bus, failures))


async def test_unconfirmed_outputs_are_published_again() -> None:
    bench = Bench(route)
    with_publisher(bench, [DependencyUnavailable("kafka", "no confirmation")] * 2)
    await bench.handle(question())
    assert len(bench.bus.records(TOPICS.routed)) == 1
    assert bench.calls == 1


async def test_a_record_that_the_broker_never_takes_is_the_failed_answer() -> None:
    bench = Bench(route)
    with_publisher(bench, [PermanentError("kafka refuses the record: too large")])
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert "too large" in failure.message


async def test_an_answer_that_no_topic_takes_is_the_failed_answer() -> None:
    async def endless(job: Job) -> Job | Answer:
        return Answer(
            query_id=job.query_id,
            question=job.query.text,
            status=AnswerStatus.ANSWERED,
            text="x" * LARGEST_ANSWER,
            accepted_at=START,
            completed_at=START,
        )

    bench = Bench(endless)
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert f"more than {LARGEST_ANSWER}" in failure.message


async def test_a_copy_that_fails_takes_nothing_from_the_outcome() -> None:
    bench = Bench(raising(PermanentError("nope")), reply_prefix="replies.")
    replies = _Refusing(bench.bus, [AssertionError("Unrecognized partition")])
    object.__setattr__(bench.services, "replies", replies)
    await bench.handle(question(reply_to="replies.mine", reply_partition=99))
    assert bench.answer().status is AnswerStatus.FAILED
    assert bench.dead() == []


async def test_nothing_is_published_once_the_lease_is_gone() -> None:
    bench: Bench

    async def losing(job: Job) -> Job | Answer:
        bench.lease.held = False
        return await route(job)

    bench = Bench(losing)
    with pytest.raises(LeaseRevoked):
        await bench.handle(question())
    assert bench.bus.records(TOPICS.routed) == []
    assert bench.answers() == []


async def test_the_deadline_is_counted_from_the_brokers_time() -> None:
    job, _ = _accepted(Acceptance(frozenset({"DOCS"}), default_deadline=5))(
        InboundRecord(TOPICS.queries, 0, 0, START.timestamp(), None, orjson.dumps(question()))
    )
    assert job.deadline == START + timedelta(seconds=5)


async def test_the_longest_deadline_is_a_cap() -> None:
    query = Query(query_id="q", text="?", deadline=START + timedelta(days=1))
    job = Acceptance(frozenset(), longest_deadline=60).accept(
        query, at=START, generation=0, fingerprint="f"
    )
    assert job.deadline == START + timedelta(seconds=60)
