from __future__ import annotations

import asyncio

import pytest

from ragstream.delivery.cancellation import Cancellations
from ragstream.domain.errors import QueryCancelled


class Worker:
    """A task that watches a query until it is ended."""

    def __init__(self, cancellations: Cancellations, tenant: str, query_id: str) -> None:
        self.outcome = "working"
        self.task = asyncio.create_task(self._work(cancellations, tenant, query_id))

    async def _work(self, cancellations: Cancellations, tenant: str, query_id: str) -> None:
        try:
            with cancellations.watch(tenant, query_id):
                await asyncio.Event().wait()
        except QueryCancelled:
            self.outcome = "cancelled"
            await asyncio.sleep(0)  # the task itself goes on
            self.outcome = "told"


async def test_the_query_ends_and_its_task_goes_on() -> None:
    cancellations = Cancellations()
    worker = Worker(cancellations, "acme", "q")
    await asyncio.sleep(0)
    assert cancellations.cancel("acme", "q")
    await worker.task
    assert worker.outcome == "told"
    assert worker.task.cancelling() == 0


async def test_tenant_and_id_have_to_match() -> None:
    cancellations = Cancellations()
    worker = Worker(cancellations, "acme", "q")
    await asyncio.sleep(0)
    assert not cancellations.cancel("other", "q")
    assert not cancellations.cancel("acme", "p")
    await asyncio.sleep(0)
    assert worker.outcome == "working"
    worker.task.cancel()
    await asyncio.gather(worker.task, return_exceptions=True)


async def test_a_query_that_is_worked_on_twice_ends_twice() -> None:
    cancellations = Cancellations()
    workers = [Worker(cancellations, "acme", "q") for _ in range(2)]
    await asyncio.sleep(0)
    assert cancellations.cancel("acme", "q")
    await asyncio.gather(*(worker.task for worker in workers))
    assert [worker.outcome for worker in workers] == ["told", "told"]


async def test_one_that_ends_leaves_the_other_to_be_cancelled() -> None:
    cancellations = Cancellations()
    staying = Worker(cancellations, "acme", "q")
    await asyncio.sleep(0)
    with cancellations.watch("acme", "q"):
        pass
    assert cancellations.cancel("acme", "q")
    await staying.task
    assert staying.outcome == "told"


async def test_a_cancellation_that_came_first_counts() -> None:
    cancellations = Cancellations()
    assert not cancellations.cancel("acme", "q")
    with pytest.raises(QueryCancelled), cancellations.watch("acme", "q"):
        pytest.fail("it was worked on")
    with cancellations.watch("other", "q"):
        pass


async def test_the_latest_are_remembered() -> None:
    cancellations = Cancellations(remembered=2)
    for query_id in "abc":
        cancellations.cancel("acme", query_id)
    with cancellations.watch("acme", "a"):
        pass
    for query_id in "bc":
        with pytest.raises(QueryCancelled), cancellations.watch("acme", query_id):
            pytest.fail("it was worked on")


async def test_a_shutdown_stays_a_shutdown() -> None:
    cancellations = Cancellations()
    worker = Worker(cancellations, "acme", "q")
    await asyncio.sleep(0)
    worker.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker.task
    assert worker.outcome == "working"


async def test_a_shutdown_at_the_same_moment_wins() -> None:
    cancellations = Cancellations()
    worker = Worker(cancellations, "acme", "q")
    await asyncio.sleep(0)
    cancellations.cancel("acme", "q")
    worker.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker.task
    assert worker.outcome == "working"


async def test_cancelling_twice_cancels_once() -> None:
    cancellations = Cancellations()
    worker = Worker(cancellations, "acme", "q")
    await asyncio.sleep(0)
    assert cancellations.cancel("acme", "q")
    assert not cancellations.cancel("acme", "q")
    await worker.task
    assert worker.task.cancelling() == 0


async def test_nothing_is_kept_of_what_ended() -> None:
    cancellations = Cancellations()
    with cancellations.watch("acme", "q"):
        pass
    assert cancellations._working == {}
