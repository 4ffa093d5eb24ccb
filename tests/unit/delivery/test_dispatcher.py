"""The dispatcher on its own: no Kafka, no stage."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream.delivery.dispatcher import Dispatcher, Handler, Lease, Window
from ragstream.delivery.tracker import OffsetTracker
from ragstream.domain.errors import LeaseRevoked
from ragstream.domain.records import InboundRecord, TopicPartition

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)


class Flow:
    def __init__(self) -> None:
        self.paused: set[TopicPartition] = set()
        self.calls: list[tuple[str, TopicPartition]] = []

    def pause(self, partition: TopicPartition) -> None:
        self.paused.add(partition)
        self.calls.append(("pause", partition))

    def resume(self, partition: TopicPartition) -> None:
        self.paused.discard(partition)
        self.calls.append(("resume", partition))


def record(offset: int, key: str | None = None, partition: int = 0) -> InboundRecord:
    return InboundRecord("t", partition, offset, 0.0, key.encode() if key else None, b"{}")


def dispatcher(handler: Handler, window: Window | None = None) -> tuple[Dispatcher, Flow, list]:
    flow, faults = Flow(), []
    made = Dispatcher(handler, window=window, flow=flow, on_fault=faults.append)
    made.assign([P0, P1])
    return made, flow, faults


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@given(st.data())
def test_the_prefix_never_passes_a_record_that_is_not_done(data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=30))
    offsets = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    tracker = OffsetTracker()
    items = [tracker.deliver(offset) for offset in offsets]
    order = data.draw(st.permutations(range(len(items))))
    done: set[int] = set()
    for index in order:
        tracker.finish(items[index])
        done.add(index)
        prefix = next((i for i in range(len(items)) if i not in done), len(items))
        assert tracker.position == (offsets[prefix - 1] + 1 if prefix else None)
        assert len(tracker) == len(items) - prefix


async def test_records_of_a_key_run_in_order_and_keys_side_by_side() -> None:
    release: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
    started: list[str] = []

    async def handle(r: InboundRecord, _lease: Lease) -> None:
        name = f"{(r.key or b'').decode()}{r.offset}"
        started.append(name)
        await release[name].wait()

    d, _, _ = dispatcher(handle)
    for offset, key in enumerate("aab"):
        d.feed(record(offset, key))
    await settle()
    assert started == ["a0", "b2"]
    release["b2"].set()
    await settle()
    assert d.committable() == {}  # b is done, but a stands before it
    release["a0"].set()
    await settle()
    assert started == ["a0", "b2", "a1"]
    assert d.committable() == {P0: 1}
    release["a1"].set()
    await settle()
    assert d.committable() == {P0: 3}


async def test_records_without_a_key_do_not_wait_for_each_other() -> None:
    running = 0

    async def handle(_r: InboundRecord, _lease: Lease) -> None:
        nonlocal running
        running += 1
        await asyncio.Event().wait()

    d, _, _ = dispatcher(handle)
    for offset in range(5):
        d.feed(record(offset))
    await settle()
    assert running == 5
    await d.drain([P0], timeout=0)


async def test_a_confirmed_commit_is_not_offered_again() -> None:
    async def handle(_r: InboundRecord, _lease: Lease) -> None:
        return None

    d, _, _ = dispatcher(handle)
    d.feed(record(7))
    await settle()
    assert d.committable() == {P0: 8}
    assert d.committable() == {P0: 8}  # a commit that failed is tried again
    d.confirm({P0: 8})
    assert d.committable() == {}


async def test_a_handler_that_raises_keeps_its_record_and_tells() -> None:
    async def handle(r: InboundRecord, _lease: Lease) -> None:
        if r.offset == 1:
            raise RuntimeError("no")

    d, _, faults = dispatcher(handle)
    for offset in range(3):
        d.feed(record(offset, str(offset)))
    await settle()
    assert d.committable() == {P0: 1}
    assert [str(fault) for fault in faults] == ["no"]


async def test_a_handler_that_is_cancelled_from_within_tells() -> None:
    async def handle(_r: InboundRecord, _lease: Lease) -> None:
        confirmation = asyncio.get_running_loop().create_future()
        confirmation.cancel()
        await confirmation

    d, _, faults = dispatcher(handle)
    d.feed(record(0, "a"))
    await settle()
    assert d.committable() == {}
    assert len(faults) == 1  # or the partition would stand still for ever


async def test_a_full_partition_is_paused_and_resumed_at_half() -> None:
    gate = asyncio.Event()

    async def handle(_r: InboundRecord, _lease: Lease) -> None:
        await gate.wait()

    d, flow, _ = dispatcher(handle, Window(records=100, per_partition=4, per_key=100))
    for offset in range(4):
        d.feed(record(offset, str(offset)))
    d.feed(record(0, "x", partition=1))
    assert flow.paused == {P0}
    gate.set()
    await settle()
    assert flow.paused == set()
    assert flow.calls == [("pause", P0), ("resume", P0)]


async def test_a_crowded_key_pauses_its_partition() -> None:
    gate = asyncio.Event()

    async def handle(_r: InboundRecord, _lease: Lease) -> None:
        await gate.wait()

    d, flow, _ = dispatcher(handle, Window(records=10, per_partition=100, per_key=3))
    for offset in range(4):
        d.feed(record(offset, "hot"))
    assert flow.paused == {P0}
    gate.set()
    await settle()
    assert flow.paused == set()
    assert d.committable() == {P0: 4}


async def test_no_more_handlers_than_the_window_run_at_once() -> None:
    gate = asyncio.Event()
    running = most = 0

    async def handle(_r: InboundRecord, _lease: Lease) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    d, _, _ = dispatcher(handle, Window(records=3))
    for offset in range(10):
        d.feed(record(offset))
    await settle()
    assert (running, d.running) == (3, 3)
    gate.set()
    await settle()
    assert most == 3
    assert d.committable() == {P0: 10}


async def test_drain_lets_running_handlers_finish_and_drops_what_waits() -> None:
    gate = asyncio.Event()
    handled: list[int] = []

    async def handle(r: InboundRecord, _lease: Lease) -> None:
        await gate.wait()
        handled.append(r.offset)

    d, _, _ = dispatcher(handle)
    d.feed(record(0, "a"))
    d.feed(record(1, "a"))
    d.feed(record(0, "z", partition=1))
    await settle()
    draining = asyncio.create_task(d.drain([P0], timeout=5))
    await settle()
    d.feed(record(2, "b"))  # comes too late
    gate.set()
    await draining
    assert handled == [0, 0]
    assert d.committable() == {P0: 1, P1: 1}
    d.release([P0])
    assert d.assigned() == {P1}


async def test_a_handler_that_outlasts_the_drain_is_cancelled_and_may_not_publish() -> None:
    outcome: list[str] = []

    async def handle(_r: InboundRecord, lease: Lease) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                lease.check()
                outcome.append("published")
            except LeaseRevoked:
                outcome.append("held back")
            raise

    d, _, faults = dispatcher(handle)
    d.feed(record(0, "a"))
    await settle()
    await d.drain([P0], timeout=0.01)
    assert outcome == ["held back"]
    assert d.committable() == {}
    assert faults == []


async def test_a_new_assignment_starts_a_new_epoch() -> None:
    leases: list[Lease] = []
    first = asyncio.Event()

    async def handle(_r: InboundRecord, lease: Lease) -> None:
        leases.append(lease)
        if len(leases) == 1:
            await first.wait()

    d, _, _ = dispatcher(handle)
    d.feed(record(5, "a"))
    await settle()
    await d.drain([P0], timeout=0)
    d.release([P0])
    d.assign([P0])
    d.feed(record(5, "a"))
    await settle()
    assert [lease.held for lease in leases] == [False, True]
    assert d.committable() == {P0: 6}


async def test_an_assignment_that_was_never_drained_ends_with_the_next() -> None:
    leases: list[Lease] = []

    async def handle(_r: InboundRecord, lease: Lease) -> None:
        leases.append(lease)
        await asyncio.Event().wait()

    d, _, faults = dispatcher(handle, Window(records=2))
    for offset in range(3):
        d.feed(record(offset))
    await settle()
    d.assign([P0])
    await settle()
    assert [lease.held for lease in leases] == [False, False]
    assert (d.running, d.in_flight, faults) == (0, 0, [])


async def test_records_of_foreign_partitions_are_left_alone() -> None:
    handled = []

    async def handle(r: InboundRecord, _lease: Lease) -> None:
        handled.append(r)

    d, _, _ = dispatcher(handle)
    d.feed(record(0, "a", partition=9))
    await settle()
    assert handled == []
    assert d.in_flight == 0


@settings(max_examples=40)
@given(
    keys=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=40),
    window=st.integers(1, 5),
    naps=st.lists(st.integers(0, 3), min_size=40, max_size=40),
)
def test_everything_is_handled_once_in_key_order(
    keys: list[str | None], window: int, naps: list[int]
) -> None:
    seen: dict[str | None, list[int]] = defaultdict(list)

    async def run() -> dict[TopicPartition, int]:
        async def handle(r: InboundRecord, _lease: Lease) -> None:
            for _ in range(naps[r.offset]):
                await asyncio.sleep(0)
            seen[r.key.decode() if r.key else None].append(r.offset)

        d, _, _ = dispatcher(handle, Window(records=window))
        for offset, key in enumerate(keys):
            d.feed(record(offset, key))
        while d.running:
            await asyncio.sleep(0)
        return d.committable()

    assert asyncio.run(run()) == {P0: len(keys)}
    for key in "abc":
        assert seen[key] == [offset for offset, k in enumerate(keys) if k == key]
    assert sorted(seen[None]) == [offset for offset, k in enumerate(keys) if k is None]


def test_a_lease_that_was_revoked_refuses() -> None:
    lease = Lease(P0)
    lease.check()
    lease.held = False
    with pytest.raises(LeaseRevoked, match=r"t\[0\]"):
        lease.check()


async def test_a_lease_in_doubt_waits_until_it_is_certain_or_revoked() -> None:
    """As after a suspension: the partition may be somebody else's, and nobody has said so yet."""
    certain = False
    kept, lost = Lease(P0, lambda: certain), Lease(P1, lambda: certain)
    waiting = [asyncio.create_task(lease.confirmed()) for lease in (kept, lost)]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    lost.held = False
    certain = True
    await waiting[0]
    with pytest.raises(LeaseRevoked):
        await waiting[1]
