"""Workers that are killed: at random moments, and exactly between two steps."""

from __future__ import annotations

import asyncio
from functools import partial

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
    if arena.short:
        hops = [rng.choice(hops)]
    faults = []
    for topic in hops:
        faults.append(Sabotage("published", nth=rng.randint(10, 60), topic=topic))
        faults.append(Sabotage("committing", nth=rng.randint(2, 10)))
    saboteur = await arena.begin(faults[0])
    async with arena.loading():
        for fault, following in zip(faults, [*faults[1:], None], strict=True):
            place = await arena.sabotaged(saboteur)
            if fault.topic:
                await arena.site.log.next(fault.topic, place)
            saboteur = await arena.launch(following)


async def before_output(arena: Arena) -> None:
    """SIGKILL between the ledger's write and the output's publication."""
    site, rng = arena.site, arena.rng
    faults = [Sabotage("recorded", nth=rng.randint(5, 60)) for _ in range(1 if arena.short else 8)]
    cut_off = []
    saboteur = await arena.begin(faults[0])
    async with arena.loading():
        for following in [*faults[1:], None]:
            query_id = await arena.sabotaged(saboteur)
            assert not site.log.answers(query_id), f"{query_id} was published already"
            cut_off.append(query_id)
            saboteur = await arena.launch(following)
        for query_id in cut_off:
            await eventually(
                partial(site.log.answers, query_id),
                f"the answer to {query_id}, which the ledger holds",
            )


SCENARIOS = (
    Scenario("sigkill", sigkill),
    Scenario("after-output", after_output, queries=(2000, 100)),
    Scenario("before-output", before_output, queries=(2000, 100)),
)
