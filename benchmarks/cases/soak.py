"""Ten minutes at a steady rate: what a worker holds must be the same at the end as at the start."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.process import ChainProcess
from benchmarks.site import PEERS, Site

__all__ = ["Soak", "measure"]


@dataclass(frozen=True, slots=True)
class Soak:
    """What the worker held after ``seconds`` of work. Memory in MiB."""

    seconds: float
    memory: float
    tasks: int
    files: int


async def measure(
    site: Site,
    report: Callable[[str], None],
    *,
    seconds: float = 600.0,
    rate: float = 50.0,
    every: float = 60.0,
) -> list[Soak]:
    """Samples; the first one after a minute's work, when caches and pools are filled."""
    peer = PEERS["ragstream-full"]
    statistics = site.folder / "statistics.json"
    order = replace(await site.order(peer), statistics=str(statistics))
    samples = []
    async with site.gauge(order) as gauge, site.process(peer, order) as process:
        await gauge.warm_up(process)
        for minute in range(1, int(seconds / every) + 1):
            sent = await gauge.steady(rate, int(rate * every))
            if missing := await gauge.arrival(sent, timeout=60):
                raise RuntimeError(f"{len(missing)} records did not arrive")
            sample = Soak(
                minute * every, process.memory(), await _tasks(process, statistics), process.files()
            )
            report(
                f"{sample.seconds:5.0f} s  {sample.memory:6.1f} MiB  {sample.tasks} tasks  "
                f"{sample.files} files"
            )
            samples.append(sample)
    return samples


async def _tasks(process: ChainProcess, statistics: Path) -> int:
    """Tasks of the process's event loop, a moment after the last record."""
    await asyncio.sleep(2)
    process.send(signal.SIGUSR1)
    await asyncio.sleep(2)
    return int(json.loads(await asyncio.to_thread(statistics.read_text))["tasks"])
