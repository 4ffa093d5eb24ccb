"""Services that go away and come back: killed, or still there and silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.chaos.arena import Arena, Scenario
from tests.chaos.waiting import eventually
from tests.support.deployment import Worker

__all__ = ["SCENARIOS"]

#: Seconds of an outage, in the full and in the short form.
GONE = (30.0, 3.0)


async def broker(arena: Arena) -> None:
    """The broker killed three times, restarted on the same data."""
    load, services = arena.load, arena.services
    worker = await arena.begin()
    async with arena.loading():
        for number in range(1 if arena.short else 3):
            worker = await _living(arena, worker)
            await load.until_answered((number + 1) * load.total // 5)
            await asyncio.sleep(arena.rng.uniform(0, 0.5))
            arena.fault()
            await services.kill("kafka")
            await asyncio.sleep(arena.rng.uniform(0, 5))
            began = time.monotonic()
            await services.restart("kafka")
            arena.notes.append(f"the broker was back {time.monotonic() - began:.1f} s later")
        await _living(arena, worker)


def outage(name: str) -> Callable[[Arena], Awaitable[None]]:
    """A scenario in which a service is first killed, and later only silent."""

    async def run(arena: Arena) -> None:
        load, services = arena.load, arena.services
        gone = GONE[arena.short]
        worker = await arena.begin()
        async with arena.loading():
            await load.until_answered(load.total // 5)
            before = load.answered()
            arena.fault()
            await services.kill(name)
            await asyncio.sleep(gone)
            arena.notes.append(f"killed: {load.answered() - before} answers in {gone:g} s")
            await services.restart(name)
            worker = await _living(arena, worker)
            await load.until_answered(load.total // 2)
            before = load.answered()
            arena.fault()
            services.suspend(name)
            await asyncio.sleep(gone)
            arena.notes.append(f"silent: {load.answered() - before} answers in {gone:g} s")
            services.resume(name)
            await _living(arena, worker)

    run.__doc__ = f"{name} gone for a while: killed, then suspended."
    return run


async def _living(arena: Arena, worker: Worker) -> Worker:
    """The worker, or a new one in the place of one that gave up: what a supervisor does."""
    if worker.process.returncode is not None:
        arena.notes.append(f"a worker ended by itself with code {worker.process.returncode}")
        worker = await arena.launch()
    await eventually(
        lambda: worker.process.returncode is not None or "ready: " in worker.log,
        "a worker to start",
    )
    return worker


SCENARIOS = (
    Scenario("broker", broker),
    *(
        Scenario(name, outage(name), queries=(1500, 60), load={"rate": 25.0, "ahead": 1000})
        for name in ("valkey", "postgres", "vectors")
    ),
)
