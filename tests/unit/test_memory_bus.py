"""The bus inside the process: what makes Kafka Kafka for the pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.memory import MemoryBus, MemoryDeltas
from ragstream.domain.errors import ConfigurationError, PermanentError
from ragstream.domain.events import AnswerDelta, Query
from ragstream.domain.records import InboundRecord, OutboundRecord, TopicPartition
from ragstream.wire import decode, record_key

P0, P1 = TopicPartition("a", 0), TopicPartition("a", 1)


def record(
    value: bytes | None = b"v",
    *,
    topic: str = "a",
    key: bytes | None = b"k",
    partition: int | None = None,
) -> OutboundRecord:
    return OutboundRecord(topic, key, value, (("h", b"1"), ("h", b"2")), partition)


async def heard(records: AsyncIterator[InboundRecord], count: int) -> list[bytes | None]:
    return [(await anext(records)).value for _ in range(count)]


async def test_a_record_comes_out_as_it_went_in() -> None:
    bus = MemoryBus(["a", "b"], partitions=2)
    await bus.publish([record(b"1", partition=1), record(None, key=None, partition=1)])
    first, second = bus.read(P1, 0, 9)
    assert (first.topic, first.partition, first.offset) == ("a", 1, 0)
    assert (first.key, first.value, first.headers) == (b"k", b"1", (("h", b"1"), ("h", b"2")))
    assert (second.key, second.value, second.offset) == (None, None, 1)
    assert bus.read(P0, 0, 9) == bus.records("b") == []


async def test_reading_starts_anywhere_and_ends_at_its_limit() -> None:
    bus = MemoryBus(["a"], partitions=1)
    await bus.publish([record(bytes([n])) for n in range(5)])
    assert [r.offset for r in bus.read(P0, 1, 3)] == [1, 2, 3]
    assert [r.offset for r in bus.read(P0, 4, 3)] == [4]
    assert bus.read(P0, 5, 3) == []


@given(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), max_size=20))
async def test_records_of_a_key_stay_in_one_partition_in_order(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    bus = MemoryBus(["a"], partitions=3)
    await bus.publish([record(value, key=key) for key, value in pairs])
    assert len(bus.records("a")) == len(pairs)
    for key in {key for key, _ in pairs}:
        mine = [r for r in bus.records("a") if r.key == key]
        assert len({r.partition for r in mine}) == 1
        assert [r.value for r in mine] == [value for other, value in pairs if other == key]


async def test_records_without_a_key_are_spread() -> None:
    bus = MemoryBus(["a"], partitions=2)
    await bus.publish([record(key=None) for _ in range(4)])
    assert [len(bus.read(name, 0, 9)) for name in (P0, P1)] == [2, 2]


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (record(topic="missing"), "no such topic: missing"),
        (record(partition=2), r"no such partition: a\[2\]"),
        (record(partition=-1), r"no such partition: a\[-1\]"),
        (record(b"x" * 11), "larger than 10 bytes"),
    ],
)
async def test_what_a_broker_refuses_is_refused(refused: OutboundRecord, reason: str) -> None:
    bus = MemoryBus(["a"], partitions=2, max_bytes=10)
    with pytest.raises(PermanentError, match=reason):
        await bus.publish([refused])
    assert bus.records("a") == []
    await bus.publish([record(b"x" * 10)])


async def test_groups_have_offsets_of_their_own() -> None:
    bus = MemoryBus(["a"], partitions=2)
    await bus.publish([record(partition=0), record(partition=0), record(partition=1)])
    assert (bus.lag("one", "a"), bus.committed("one", P0)) == (3, 0)
    bus.commit("one", {P0: 2})
    assert (bus.committed("one", P0), bus.committed("one", P1)) == (2, 0)
    assert (bus.lag("one", "a"), bus.lag("two", "a")) == (1, 3)


async def test_a_topic_that_is_made_again_keeps_its_records() -> None:
    bus = MemoryBus(["a"])
    await bus.publish([record()])
    bus.create("a")
    bus.create("later")
    await bus.publish([record(topic="later")])
    assert (len(bus.records("a")), len(bus.records("later"))) == (1, 1)


# --- following -----------------------------------------------------------------------------


async def test_a_tail_hears_what_comes_after_it_was_opened() -> None:
    bus = MemoryBus(["a", "b", "c"], partitions=2)
    await bus.publish([record(b"before")])
    async with bus.tail(["a", "b"]) as records:
        await bus.publish([record(b"1"), record(b"not mine", topic="c")])
        await bus.publish([record(b"2", topic="b")])
        assert await heard(records, 2) == [b"1", b"2"]
        waiting = asyncio.create_task(heard(records, 1))
        await asyncio.sleep(0)
        await bus.publish([record(b"3")])
        assert await waiting == [b"3"]


async def test_two_tails_hear_the_same() -> None:
    bus = MemoryBus(["a"])
    async with bus.tail(["a"]) as one, bus.tail(["a"]) as other:
        await bus.publish([record(b"1"), record(b"2")])
        assert await heard(one, 2) == await heard(other, 2) == [b"1", b"2"]


async def test_what_is_published_while_a_tail_is_read_is_not_missed() -> None:
    bus = MemoryBus(["a"], partitions=2)
    async with bus.tail(["a"]) as records:
        await bus.publish([record(b"1", partition=1)])
        assert await heard(records, 1) == [b"1"]
        # It is past partition 0 in its round, and about to wait.
        await bus.publish([record(b"2", partition=0)])
        assert await heard(records, 1) == [b"2"]


async def test_the_records_before_a_refused_one_are_heard() -> None:
    bus = MemoryBus(["a"])
    async with bus.tail(["a"]) as records:
        waiting = asyncio.create_task(heard(records, 1))
        await asyncio.sleep(0)
        with pytest.raises(PermanentError):
            await bus.publish([record(b"1"), record(topic="missing")])
        for _ in range(5):
            await asyncio.sleep(0)
        assert waiting.done()
        waiting.cancel()


async def test_a_topic_that_does_not_exist_can_not_be_followed() -> None:
    with pytest.raises(ConfigurationError, match="no such topic: missing"):
        async with MemoryBus(["a"]).tail(["a", "missing"]):
            pytest.fail("it was followed")


async def test_growth_wakes_everyone_once() -> None:
    bus = MemoryBus(["a"])
    waiting = [asyncio.create_task(bus.wait_for_growth()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    await bus.publish([record()])
    await asyncio.gather(*waiting)
    later = asyncio.create_task(bus.wait_for_growth())
    await asyncio.sleep(0)
    assert not later.done()
    later.cancel()


async def test_deltas_are_records_beside_the_answer() -> None:
    bus = MemoryBus(["deltas"])
    query = Query(query_id="q", text="?", tenant="acme", conversation_id="c")
    deltas = MemoryDeltas(bus, "deltas")
    for seq, text in enumerate(("It ", "is.")):
        deltas.emit(
            query, AnswerDelta(query_id="q", tenant="acme", attempt="1", seq=seq, text=text)
        )
    found = bus.records("deltas")
    assert {r.key for r in found} == {record_key("acme", "c")}
    events = [decode(r, AnswerDelta) for r in found]
    assert [event.text for event, _ in events] == ["It ", "is."]
    assert len({envelope.id for _, envelope in events}) == 2
