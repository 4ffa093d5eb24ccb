"""A worker dies, another one runs: how long until every partition is served again.

Probes go on at 40/s with keys over all partitions. A partition is served again when a probe that
was sent into it after the signal arrives behind the fourth hop; the slowest partition counts.
"""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass

from benchmarks.gauge import Sent
from benchmarks.peers.common import PARTITIONS
from benchmarks.site import PEERS, Site

__all__ = ["Failover", "measure"]

RATE = 40.0


@dataclass(frozen=True, slots=True)
class Failover:
    """Seconds until all was served again; records that never came, arrivals beyond one each."""

    signal: str
    seconds: float
    lost: int
    copies: int


async def measure(site: Site) -> list[Failover]:
    return [
        await _one(site, signal.SIGKILL, watch=20.0),
        await _one(site, signal.SIGTERM, watch=12.0),
    ]


async def _one(site: Site, signum: signal.Signals, *, watch: float) -> Failover:
    peer = PEERS["ragstream-full"]
    order = await site.order(peer)
    async with (
        site.gauge(order) as gauge,
        site.process(peer, order) as doomed,
        site.process(peer, order) as other,
    ):
        await gauge.warm_up(doomed, other)
        before = await gauge.steady(RATE, int(5 * RATE))  # the group has settled with both
        sending = asyncio.create_task(gauge.steady(RATE, int((watch + 2) * RATE)))
        await asyncio.sleep(2)
        doomed.send(signum)
        at = time.monotonic()
        sent = [*before, *await sending]
        lost = await gauge.arrival(sent, timeout=30)
        other.check()
        return Failover(
            signal=signum.name,
            seconds=_served_again(sent, at),
            lost=len(lost),
            copies=sum(one.copies - 1 for one in sent if one.arrived),
        )


def _served_again(sent: list[Sent], at: float) -> float:
    """Seconds after ``at`` when the last partition delivered something sent after it."""
    first: dict[int, float] = {}
    for one in sent:
        if one.at > at and one.arrived is not None:
            first[one.partition] = min(first.get(one.partition, one.arrived), one.arrived)
    if len(first) < PARTITIONS:
        return float("inf")
    return max(first.values()) - at
