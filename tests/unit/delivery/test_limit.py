"""A stage that fails too often stops, and stays stopped until it is cleared."""

from __future__ import annotations

import asyncio

import pytest

from ragstream.adapters.memory_state import MemoryStops
from ragstream.delivery.limit import FailureLimit, follow_stops
from ragstream.domain.errors import DependencyUnavailable


class Watch:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def watch() -> Watch:
    return Watch()


def limit_of(watch: Watch, *, limit: int = 2, period: float = 10.0) -> FailureLimit:
    return FailureLimit("answer", limit=limit, period=period, now=watch)


def fail(limit: FailureLimit, times: int) -> None:
    for _ in range(times):
        limit.count(RuntimeError("defect"))


def test_more_than_the_limit_within_the_period_stops(watch: Watch) -> None:
    limit = limit_of(watch)
    fail(limit, 2)
    assert limit.reason is None
    fail(limit, 1)
    assert limit.reason is not None
    assert "more than 2 records failed within 10 s" in limit.reason
    assert "RuntimeError" in limit.reason
    assert "ragstream dlt resume answer" in limit.reason


def test_failures_that_lie_apart_do_not_stop(watch: Watch) -> None:
    limit = limit_of(watch)
    for _ in range(20):
        fail(limit, 1)
        watch.time += 6
    assert limit.reason is None


def test_no_limit(watch: Watch) -> None:
    limit = limit_of(watch, limit=0)
    fail(limit, 1000)
    assert limit.reason is None


async def test_work_waits_while_it_is_stopped(watch: Watch) -> None:
    limit = limit_of(watch)
    await limit.passage()
    fail(limit, 3)
    waiting = asyncio.create_task(limit.passage())
    await asyncio.sleep(0)
    assert not waiting.done()
    limit.resume()
    await waiting
    fail(limit, 2)  # counted anew
    assert limit.reason is None


async def test_a_stop_holds_for_other_workers_and_after_a_restart(watch: Watch) -> None:
    stops = MemoryStops()
    here, there = limit_of(watch), limit_of(watch)
    fail(here, 3)
    await follow_stops([here], stops)
    await follow_stops([there], stops)
    assert there.reason == here.reason
    restarted = limit_of(watch)
    await follow_stops([restarted], stops)
    assert restarted.reason == here.reason


async def test_clearing_lets_every_worker_go_on(watch: Watch) -> None:
    stops = MemoryStops()
    limits = [limit_of(watch), limit_of(watch)]
    fail(limits[0], 3)
    for limit in limits:
        await follow_stops([limit], stops)
    assert await stops.clear("answer")
    for limit in limits:
        await follow_stops([limit], stops)
        assert limit.reason is None


async def test_a_stop_that_could_not_be_told_is_told_later(watch: Watch) -> None:
    class Down(MemoryStops):
        async def stop(self, stage: str, reason: str) -> None:
            raise DependencyUnavailable("postgres", "down")

    limit = limit_of(watch)
    fail(limit, 3)
    with pytest.raises(DependencyUnavailable):
        await follow_stops([limit], Down())
    assert limit.reason is not None
    stops = MemoryStops()
    await follow_stops([limit], stops)
    assert await stops.stopped() == {"answer": limit.reason}


async def test_stages_are_apart(watch: Watch) -> None:
    stops = MemoryStops()
    await stops.stop("retrieve", "why")
    limit = limit_of(watch)
    await follow_stops([limit], stops)
    assert limit.reason is None
