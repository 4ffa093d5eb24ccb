"""Workers that are killed: at random moments, and exactly between two steps."""

from __future__ import annotations

import asyncio

from tests.chaos.arena import Arena, Scenario
from tests.chaos.saboteur import Sabotage
from tests.chaos.waiting import eventually

__all__ = ["SCENARIOS"]


async def sigkill(arena: Arena) -> None:
    """SIGKILL of a worker at random moments, restarted each time."""
    rng, load = arena.rng, arena.load
    kills = 2 if arena.short else 10
    amid = range(load.total // 20, load.total * 9 // 10)
    goals = sorted(rng.sample(amid, kills))
    worker = await arena.begin()
    async with arena.loading():
        for number, goal in enumerate(goals):
            if number and rng.random() < 0.3:
                # While it starts, or joins the groups that still wait for the one before.
                await asyncio.sleep(rng.uniform(1, 10))
            else:
                await load.until_answered(goal)
                await asyncio.sleep(rng.uniform(0, 0.3))
            await arena.kill(worker)
            worker = await arena.launch()


async def after_output(arena: Arena) -> None:
    """SIGKILL between an output's confirmation and its acknowledgement."""
    rng, topics = arena.rng, arena.site.topics
    hops = [topics.routed, topics.retrieved, topics.reranked, topics.answers]
    faults = [
        Sabotage("published", nth=rng.randint(10, 80), topic=rng.choice(hops)),
        Sabotage("committing", nth=rng.randint(2, 8)),
    ]
    if not arena.short:
        faults = [Sabotage("published", nth=rng.randint(10, 80), topic=topic) for topic in hops]
        faults += [Sabotage("committing", nth=rng.randint(2, 30)) for _ in hops]
        rng.shuffle(faults)
    worker = await arena.begin()
    async with arena.loading() as load:
        await load.until_answered(load.total // 20)
        await arena.kill(worker)
        for fault in faults:
            place = await arena.sabotaged(await arena.launch(fault))
            if fault.topic:
                await arena.site.log.next(fault.topic, place)
        await arena.launch()


async def before_output(arena: Arena) -> None:
    """SIGKILL between the ledger's write and the output's publication."""
    site, rng = arena.site, arena.rng
    cut_off = []
    worker = await arena.begin()
    async with arena.loading() as load:
        await load.until_answered(load.total // 20)
        await arena.kill(worker)
        for _ in range(2 if arena.short else 8):
            sabotage = Sabotage("recorded", nth=rng.randint(5, 60))
            query_id = await arena.sabotaged(await arena.launch(sabotage))
            assert not site.log.answers(query_id), f"{query_id} was published already"
            cut_off.append(query_id)
        await arena.launch()
        for query_id in cut_off:
            await eventually(
                lambda query_id=query_id: site.log.answers(query_id),
                f"the answer to {query_id}, which the ledger holds",
            )


SCENARIOS = (
    Scenario("sigkill", sigkill),
    Scenario("after-output", after_output),
    Scenario("before-output", before_output),
)
