from __future__ import annotations

import asyncio

import pytest

from ragstream.delivery.dispatcher import Lease
from ragstream.delivery.retry import LONGEST_WAIT, Backoff, Gate, patiently
from ragstream.domain.errors import (
    DependencyUnavailable,
    LeaseRevoked,
    PermanentError,
    TransientError,
)
from ragstream.domain.records import TopicPartition

QUICK = Backoff(base=0.001, limit=0.002)


def lease() -> Lease:
    return Lease(TopicPartition("t", 0))


def test_backoff_grows_to_its_limit_and_obeys_retry_after() -> None:
    backoff = Backoff(base=1, limit=8)
    for attempt, ceiling in enumerate([1, 2, 4, 8, 8, 8]):
        assert ceiling / 2 <= backoff.delay(attempt) <= ceiling
    assert backoff.delay(0, retry_after=30) == 30
    assert backoff.delay(0, retry_after=86_400) == LONGEST_WAIT
    assert backoff.delay(10_000) <= 8


async def test_only_one_probe_goes_through_a_closed_gate() -> None:
    gate = Gate(QUICK)
    down, calls, inside, most = True, 0, 0, 0

    async def call() -> str:
        nonlocal calls, inside, most
        calls += 1
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.001)
        inside -= 1
        if down:
            raise DependencyUnavailable("qdrant", "refused")
        return "ok"

    with pytest.raises(DependencyUnavailable):
        async with gate.passage():
            await call()
    assert gate.reason == "qdrant: refused"
    most = 0
    waiting = [
        asyncio.create_task(patiently(call, lease=lease(), backoff=QUICK, gate=gate))
        for _ in range(20)
    ]
    await asyncio.sleep(0.02)
    assert most == 1
    down = False
    assert await asyncio.gather(*waiting) == ["ok"] * 20
    assert gate.open


async def test_the_log_says_which_stage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    gate = Gate(QUICK, "route")
    with pytest.raises(DependencyUnavailable):
        async with gate.passage():
            raise DependencyUnavailable("redis", "refused")
    async with gate.passage():
        pass
    assert [record.getMessage() for record in caplog.records] == [
        "route pauses: redis: refused",
        "route goes on: the dependency answers again",
    ]


async def test_an_error_that_is_no_outage_leaves_the_gate_open() -> None:
    gate = Gate(QUICK)
    with pytest.raises(PermanentError):
        async with gate.passage():
            raise PermanentError("bad request")
    assert gate.open


async def test_patience_ends_with_the_lease() -> None:
    held = lease()

    async def call() -> None:
        held.held = False
        raise TransientError("again")

    with pytest.raises(LeaseRevoked):
        await patiently(call, lease=held, backoff=QUICK, gate=Gate(QUICK))


async def test_patience_passes_permanent_errors_on() -> None:
    async def call() -> None:
        raise PermanentError("never")

    with pytest.raises(PermanentError, match="never"):
        await patiently(call, lease=lease(), backoff=QUICK, gate=Gate(QUICK))


async def test_a_waiter_at_the_gate_can_give_up() -> None:
    gate = Gate(Backoff(base=60, limit=60))
    with pytest.raises(DependencyUnavailable):
        async with gate.passage():
            raise DependencyUnavailable("redis", "down")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            async with gate.passage():
                pytest.fail("the gate let a call through")
    assert not gate.open


async def test_an_outage_is_forgotten_when_no_record_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ragstream.delivery.retry.FORGOTTEN", 0.05)
    gate = Gate(QUICK)

    async def call() -> None:
        raise DependencyUnavailable("qdrant", "refused")

    waiting = asyncio.create_task(patiently(call, lease=lease(), backoff=QUICK, gate=gate))
    await asyncio.sleep(0.2)
    assert gate.reason == "qdrant: refused"
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not gate.open
    await asyncio.sleep(0.2)
    assert gate.reason is None


async def test_nothing_is_called_while_the_lease_is_in_doubt() -> None:
    certain, calls = False, 0

    async def call() -> None:
        nonlocal calls
        calls += 1

    doubtful = Lease(TopicPartition("t", 0), lambda: certain)
    task = asyncio.create_task(patiently(call, lease=doubtful, backoff=QUICK, gate=Gate(QUICK)))
    await asyncio.sleep(0.01)
    assert calls == 0
    certain = True
    await task
    assert calls == 1
