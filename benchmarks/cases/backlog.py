"""A worker that finds a backlog: its memory must not grow with it.

The records lie in the first topic before the worker starts. It runs the four stages with outcomes
in Postgres and marks in Valkey, as in production, and is looked at after the same time each, when
the small backlog is long done and the large one is not.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmarks.site import PEERS, Site

__all__ = ["Backlog", "measure"]


@dataclass(frozen=True, slots=True)
class Backlog:
    """MiB of peak resident memory; ``ratio``: large to small."""

    small_records: int
    small: float
    large_records: int
    large: float
    ratio: float


async def measure(
    site: Site, *, small: int = 1_000, large: int = 100_000, seconds: float = 20.0
) -> Backlog:
    few = await _peak(site, small, seconds)
    many = await _peak(site, large, seconds)
    return Backlog(small, few, large, many, many / few)


async def _peak(site: Site, records: int, seconds: float) -> float:
    peer = PEERS["ragstream-full"]
    order = await site.order(peer)
    async with site.gauge(order) as gauge:
        burst = await gauge.burst(records, wait=False)
        async with site.process(peer, order) as process:
            while not any(one.arrived for one in burst.sent):
                process.check()
                await asyncio.sleep(0.1)
            await asyncio.sleep(seconds)
            process.check()
            left = sum(one.arrived is None for one in burst.sent)
            if (left == 0) != (records < 10_000):
                raise RuntimeError(f"{left} of {records} records are left: not what was meant")
            return process.peak_memory()
