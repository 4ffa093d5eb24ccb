"""The client on the in-memory bus, with a pipeline that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.memory import MemoryBus
from ragstream.client import Client, QueryRejected
from ragstream.domain.errors import DependencyUnavailable, InvalidEvent, PermanentError
from ragstream.domain.events import (
    Answer,
    AnswerDelta,
    AnswerStatus,
    Cancel,
    Event,
    Query,
    Rejection,
)
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.domain.topics import Topics
from ragstream.wire import decode, encode, fingerprint

TOPICS = Topics("test")
NOW = datetime(2026, 1, 10, tzinfo=UTC)


class Pipeline:
    """What the other side of the bus sees and says."""

    def __init__(self, bus: MemoryBus) -> None:
        self.bus = bus

    def queries(self) -> list[Query]:
        return [decode(r, Query, lenient=True)[0] for r in self.bus.records(TOPICS.queries)]

    def cancels(self) -> list[Cancel]:
        return [decode(r, Cancel, lenient=True)[0] for r in self.bus.records(TOPICS.control)]

    async def asked(self, count: int = 1) -> list[Query]:
        while len(self.queries()) < count:
            await self.bus.wait_for_growth()
        return self.queries()

    def say(self, event: Event, topic: str, query_id: str) -> None:
        record = encode(event, topic=topic, key=b"k", id="1", time=NOW, subject=query_id)
        self.bus.append([record])

    def answer(self, query: Query, text: str = "yes", **fields: object) -> None:
        answer = Answer.model_validate(
            {
                "query_id": query.query_id,
                "tenant": query.tenant,
                "question": query.text,
                "status": AnswerStatus.ANSWERED,
                "text": text,
                "accepted_at": NOW,
                "completed_at": NOW,
                **fields,
            }
        )
        self.say(answer, TOPICS.answers, query.query_id)

    def delta(self, query: Query, attempt: str, seq: int, text: str) -> None:
        delta = AnswerDelta(
            query_id=query.query_id, tenant=query.tenant, attempt=attempt, seq=seq, text=text
        )
        self.say(delta, TOPICS.answer_deltas, query.query_id)

    def reject(self, query_id: str, **fields: object) -> None:
        rejection = Rejection.model_validate(
            {
                "query_id": query_id,
                "message": "no such route",
                "code": "invalid_event",
                "topic": TOPICS.queries,
                "partition": 0,
                "offset": 0,
                **fields,
            }
        )
        self.say(rejection, TOPICS.rejections, query_id)


@pytest.fixture
async def pipeline() -> Pipeline:
    # One partition: what the test says first is heard first.
    return Pipeline(MemoryBus(TOPICS.all(), partitions=1))


@pytest.fixture
async def client(pipeline: Pipeline) -> AsyncIterator[Client]:
    async with Client(pipeline.bus, prefix="test", tenant="acme") as client:
        yield client


async def test_the_answer_to_the_question_is_found_among_others(
    client: Client, pipeline: Pipeline
) -> None:
    asking = asyncio.create_task(client.ask("What?", conversation_id="c", top_k=3))
    (query,) = await pipeline.asked()
    assert (query.text, query.tenant, query.conversation_id) == ("What?", "acme", "c")
    assert (query.top_k, query.stream) == (3, False)
    pipeline.answer(query.model_copy(update={"query_id": "another"}), "wrong query")
    pipeline.answer(query.model_copy(update={"tenant": "other"}), "wrong tenant")
    pipeline.answer(query, "right")
    assert (await asking).text == "right"
    assert pipeline.cancels() == []


async def test_the_time_limit_is_the_querys_deadline(client: Client, pipeline: Pipeline) -> None:
    before = datetime.now(UTC)
    asking = asyncio.create_task(client.ask("What?", timeout=30))
    (query,) = await pipeline.asked()
    assert query.deadline is not None
    assert 30 <= (query.deadline - before).total_seconds() < 40
    pipeline.answer(query)
    await asking


async def test_a_repeated_answer_is_heard_once(client: Client, pipeline: Pipeline) -> None:
    asking = asyncio.create_task(client.ask("What?", query_id="q"))
    (query,) = await pipeline.asked()
    pipeline.answer(query)
    pipeline.answer(query)
    await asking
    again = asyncio.create_task(client.ask("What?", query_id="q"))
    await pipeline.asked(2)
    pipeline.answer(query, "the second time")
    assert (await again).text == "the second time"


async def test_a_query_id_is_free_once_its_answer_is_there(
    client: Client, pipeline: Pipeline
) -> None:
    first = asyncio.create_task(client.ask("What?", query_id="q"))
    (query,) = await pipeline.asked()
    with pytest.raises(ValueError, match="already under way"):
        await client.ask("What?", query_id="q")
    pipeline.answer(query)
    await first
    assert client._waiting == {}


async def test_deltas_then_the_answer(client: Client, pipeline: Pipeline) -> None:
    stream = client.stream("What?")
    first = asyncio.ensure_future(anext(stream))
    (query,) = await pipeline.asked()
    assert query.stream
    pipeline.delta(query, "1", 0, "a")
    assert await first == AnswerDelta(
        query_id=query.query_id, tenant="acme", attempt="1", seq=0, text="a"
    )
    pipeline.answer(query, "ab")
    rest = [item async for item in stream]
    assert [item.text for item in rest] == ["ab"]


async def test_a_newer_attempt_starts_over_and_an_older_one_is_left_out(
    client: Client, pipeline: Pipeline
) -> None:
    async def collect() -> list[tuple[str | None, str]]:
        return [(item.attempt, item.text) async for item in client.stream("What?")]

    collecting = asyncio.create_task(collect())
    (query,) = await pipeline.asked()
    pipeline.delta(query, "1", 0, "old")
    pipeline.delta(query, "2", 0, "new")
    pipeline.delta(query, "1", 1, "late")
    pipeline.delta(query, "2", 1, "er")
    # Deltas and answers are on two topics: let the deltas be heard first.
    await asyncio.sleep(0)
    pipeline.answer(query, "newer", attempt="2")
    assert await collecting == [("1", "old"), ("2", "new"), ("2", "er"), ("2", "newer")]


async def test_a_rejection_is_raised(client: Client, pipeline: Pipeline) -> None:
    asking = asyncio.create_task(client.ask("What?"))
    (query,) = await pipeline.asked()
    pipeline.reject(query.query_id, tenant="acme", field="route")
    with pytest.raises(QueryRejected, match="no such route") as caught:
        await asking
    assert caught.value.rejection.field == "route"
    assert pipeline.cancels() == []


@pytest.mark.parametrize("foreign", [{"tenant": "other"}, {"fingerprint": "of another request"}])
async def test_a_rejection_of_another_request_is_not_ours(
    client: Client, pipeline: Pipeline, foreign: dict[str, str]
) -> None:
    asking = asyncio.create_task(client.ask("What?"))
    (query,) = await pipeline.asked()
    pipeline.reject(query.query_id, **foreign)
    pipeline.answer(query)
    assert (await asking).status is AnswerStatus.ANSWERED


async def test_a_rejection_of_this_very_request_is_ours(client: Client, pipeline: Pipeline) -> None:
    asking = asyncio.create_task(client.ask("What?"))
    (query,) = await pipeline.asked()
    pipeline.reject(query.query_id, tenant="acme", fingerprint=fingerprint(query))
    with pytest.raises(QueryRejected):
        await asking


@given(
    fields=st.fixed_dictionaries(
        {},
        optional={
            "filters": st.dictionaries(
                st.text("abc", min_size=1, max_size=3),
                st.integers(-(2**63), 2**63 - 1)
                | st.lists(st.text("xyz", max_size=3), min_size=1, max_size=3),
                max_size=3,
            ),
            "top_k": st.integers(1, 100),
            "history": st.lists(st.just({"role": "user", "text": "Hm?"}), max_size=2),
            "user_id": st.just("ann"),
        },
    )
)
def test_both_sides_see_the_same_request(fields: dict[str, object]) -> None:
    query = Query.model_validate({"query_id": "q", "text": "What?", **fields})
    sent = encode(query, topic="t", key=None, id="1", time=NOW)
    read = InboundRecord("t", 0, 0, 0.0, None, sent.value, sent.headers)
    assert fingerprint(decode(read, Query, lenient=True)[0]) == fingerprint(query)


async def test_no_outcome_in_time(
    client: Client, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstream.client.GRACE", 0.01)
    with pytest.raises(TimeoutError):
        await client.ask("What?", query_id="q", timeout=0.01)
    await asyncio.sleep(0)
    assert pipeline.cancels() == [Cancel(query_id="q", tenant="acme")]


async def test_a_caller_who_takes_long_between_items_is_not_interrupted(
    client: Client, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstream.client.GRACE", 0.01)
    stream = client.stream("What?", timeout=0.01)
    first = asyncio.ensure_future(anext(stream))
    (query,) = await pipeline.asked()
    pipeline.delta(query, "1", 0, "a")
    await first
    await asyncio.sleep(0.05)  # past the time limit
    with pytest.raises(TimeoutError):
        await anext(stream)


async def test_cancelling_the_caller_cancels_the_query(client: Client, pipeline: Pipeline) -> None:
    asking = asyncio.create_task(client.ask("What?", query_id="q"))
    await pipeline.asked()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0)
    assert pipeline.cancels() == [Cancel(query_id="q", tenant="acme")]


async def test_leaving_a_stream_cancels_the_query(client: Client, pipeline: Pipeline) -> None:
    stream = client.stream("What?", query_id="q", tenant="beta")
    first = asyncio.ensure_future(anext(stream))
    (query,) = await pipeline.asked()
    pipeline.delta(query, "1", 0, "a")
    await first
    await stream.aclose()
    await asyncio.sleep(0)
    assert pipeline.cancels() == [Cancel(query_id="q", tenant="beta")]


async def test_a_cancellation_is_published_before_the_client_is_closed(pipeline: Pipeline) -> None:
    async with Client(pipeline.bus, prefix="test") as client:
        asking = asyncio.create_task(client.ask("What?", query_id="q"))
        await pipeline.asked()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert [cancel.query_id for cancel in pipeline.cancels()] == ["q"]


async def test_many_at_once_each_get_their_own(client: Client, pipeline: Pipeline) -> None:
    asking = [asyncio.create_task(client.ask(f"Number {n}?")) for n in range(100)]
    for query in reversed(await pipeline.asked(100)):
        pipeline.answer(query, query.text)
    answers = await asyncio.gather(*asking)
    assert [answer.text for answer in answers] == [f"Number {n}?" for n in range(100)]


async def test_unreadable_records_are_passed_over(client: Client, pipeline: Pipeline) -> None:
    asking = asyncio.create_task(client.ask("What?"))
    (query,) = await pipeline.asked()
    subject = ("ce_subject", query.query_id.encode())
    for value in (b"not json", b"{}", None):
        pipeline.bus.append([OutboundRecord(TOPICS.answers, b"k", value, (subject,))])
    pipeline.answer(query)
    assert (await asking).text == "yes"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"top_k": 0}, "top_k"),
        ({"tenant": "a b"}, "tenant"),
        ({"topk": 5}, "topk"),
        ({"filters": {"size": 2**70}}, "filters.size"),
    ],
)
async def test_a_question_that_cant_be_asked(
    client: Client, pipeline: Pipeline, fields: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidEvent) as caught:
        await client.ask("What?", **fields)
    assert caught.value.field == field
    assert pipeline.queries() == []


class Broken:
    """A bus whose connection breaks when the test says so."""

    def __init__(self, *, refuses: Exception | None = None) -> None:
        self.breaks: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.published: list[OutboundRecord] = []
        self._refuses = refuses

    async def publish(self, records: Sequence[OutboundRecord]) -> None:
        self.published += records
        if self._refuses is not None:
            raise self._refuses

    @asynccontextmanager
    async def tail(self, topics: Sequence[str]) -> AsyncIterator[AsyncIterator[InboundRecord]]:
        async def records() -> AsyncIterator[InboundRecord]:
            await self.breaks
            yield InboundRecord("never", 0, 0, 0.0, None, None)

        yield records()


async def test_a_bus_that_is_lost_is_told_to_all_who_wait_and_who_come_later() -> None:
    bus = Broken()
    async with Client(bus) as client:
        asking = [asyncio.create_task(client.ask("What?")) for _ in range(3)]
        while len(bus.published) < 3:
            await asyncio.sleep(0)
        bus.breaks.set_exception(OSError("connection reset"))
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(outcome, DependencyUnavailable)
            assert "connection reset" in str(outcome)
        with pytest.raises(DependencyUnavailable):
            await client.ask("What?")


async def test_a_query_that_the_bus_never_takes_is_not_cancelled() -> None:
    bus = Broken(refuses=PermanentError("too large"))
    async with Client(bus) as client:
        with pytest.raises(PermanentError, match="too large"):
            await client.ask("What?")
    assert len(bus.published) == 1


async def test_a_query_that_may_have_been_taken_is_cancelled() -> None:
    bus = Broken(refuses=DependencyUnavailable("kafka", "no confirmation"))
    async with Client(bus) as client:
        with pytest.raises(DependencyUnavailable):
            await client.ask("What?")
    assert [record.topic for record in bus.published] == [
        "ragstream.queries.v1",
        "ragstream.control.v1",
    ]


async def test_publishing_counts_against_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstream.client.GRACE", 0.01)

    class Stuck(Broken):
        async def publish(self, records: Sequence[OutboundRecord]) -> None:
            await asyncio.Event().wait()

    async with Client(Stuck()) as client:
        with pytest.raises(TimeoutError):
            await client.ask("What?", timeout=0.01)
