"""Several workers: one that sleeps past its session, and numbers that change."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.arena import Arena, Scenario
from tests.chaos.saboteur import Sabotage
from tests.chaos.waiting import eventually
from tests.support.deployment import Worker

__all__ = ["SCENARIOS"]

#: Seconds beyond the session timeout of 6 s.
ASLEEP = 12.0


async def zombie(arena: Arena) -> None:
    """SIGSTOP of one of two workers past its session timeout, then SIGCONT."""
    trace = arena.site.folder / "trace.jsonl"
    await arena.begin()
    sleeper = await arena.launch(Sabotage(trace=str(trace)))
    await sleeper.ready()
    load = arena.load
    async with arena.loading():
        for number in range(1 if arena.short else 3):
            await load.until_answered((number + 1) * load.total // 5)
            await asyncio.sleep(arena.rng.uniform(0, 0.5))
            arena.fault()
            sleeper.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(ASLEEP)
            woken = time.time()
            sleeper.process.send_signal(signal.SIGCONT)
            note: str = await eventually(
                partial(_after_waking, trace, woken, sleeper),
                "the sleeper to get partitions again, or to end",
            )
            arena.notes.append(note)
            assert note.startswith("woken up, published 0 "), note
            if sleeper.process.returncode is not None:
                sleeper = await arena.launch(Sabotage(trace=str(trace)))
            await sleeper.ready()


def _after_waking(trace: Path, woken: float, sleeper: Worker) -> str | None:
    """What the sleeper did between its end of sleep and its next assignment, when that is over.

    What it had handed to its producer before is not in the trace after that moment.
    """
    lines: list[dict[str, Any]] = [json.loads(line) for line in trace.read_text().splitlines()]
    since = [line for line in lines if line["at"] > woken]
    assigned = {topic for line in since if line["kind"] == "assign" for topic in line["topics"]}
    ended = sleeper.process.returncode is not None
    if not ended and len(assigned) < len(_SOURCES):
        return None
    stale = []
    fresh: set[str] = set()
    for line in since:
        if line["kind"] == "assign":
            fresh |= {topic.split(".")[1] for topic in line["topics"]}
        elif _TARGETS.get(line["topic"].split(".")[1], set()).isdisjoint(fresh):
            stale.append(line["topic"].split(".")[1])
    return f"woken up, published {len(stale)} records of stale work {sorted(set(stale))}"


#: Topics that stages read, by the topic that they publish to.
_TARGETS = {
    "routed": {"queries"},
    "retrieved": {"routed"},
    "reranked": {"retrieved"},
    "answers": {"queries", "routed", "retrieved", "reranked"},
    "index-changes": {"documents"},
}
_SOURCES = {"queries", "routed", "retrieved", "reranked", "answers", "documents"}


async def scale(arena: Arena) -> None:
    """Workers scaled from one to three and back under load."""
    load = arena.load
    workers = [await arena.begin()]
    async with arena.loading():
        for step, change in enumerate((+1, +1, -1, -1), 1):
            await load.until_answered(step * load.total // 6)
            arena.fault()
            if change > 0:
                workers.append(await arena.launch())
                await workers[-1].ready()
            else:
                leaving = workers.pop(arena.rng.randrange(len(workers)))
                code = await leaving.stop()
                assert code == 0, f"exit code {code}: {leaving.log[-2000:]}"


SCENARIOS = (
    Scenario("zombie", zombie, queries=(1000, 200)),
    Scenario("scale", scale, queries=(1000, 200)),
)
