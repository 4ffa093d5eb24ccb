"""A model that takes its time: two seconds a call, 200 calls in flight.

The answer stage sleeps in place of the call. The ideal is 200 / 2 = 100 answers a second; the
share of it is taken over the whole backlog, from the first call's start to the last answer. While
the calls are under way, probes at 20/s measure the three stages before them, in the same process;
the same probes through the same stages with nothing else to do are what that is compared to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median, quantiles

from benchmarks.gauge import Sent
from benchmarks.peers.common import Order
from benchmarks.site import PEERS, Site

__all__ = ["Slow", "measure"]

WORK = 2.0
IN_FLIGHT = 200
#: Index of the topic behind the third hop, which is the answer stage's input.
BEFORE_ANSWER = 3


@dataclass(frozen=True, slots=True)
class Slow:
    """``share``: of the ideal rate. Milliseconds for the other stages, idle and beside it."""

    records: int
    rate: float
    ideal: float
    share: float
    idle_p50: float
    idle_p99: float
    beside_p50: float
    beside_p99: float


async def measure(site: Site, *, records: int = 3200, probes: int = 100) -> Slow:
    peer = PEERS["ragstream"]
    order = replace(await site.order(peer), work=WORK, slow=3, concurrency=IN_FLIGHT)
    async with (
        site.gauge(order) as whole,
        site.gauge(order, at=BEFORE_ANSWER) as others,
        site.process(peer, order) as process,
    ):
        await whole.warm_up(process, records=100)
        idle = await others.steady(20, probes)
        await others.arrival(idle, timeout=60)
        burst = await whole.burst(records)
        arrivals = sorted(one.arrived or 0.0 for one in burst.sent)
        seconds = arrivals[-1] - arrivals[0] + WORK
    beside = await _beside(site, order, probes)
    ideal = IN_FLIGHT / WORK
    return Slow(
        records=records,
        rate=records / seconds,
        ideal=ideal,
        share=records / seconds / ideal,
        idle_p50=median(_milliseconds(idle)),
        idle_p99=quantiles(_milliseconds(idle), n=100)[98],
        beside_p50=median(_milliseconds(beside)),
        beside_p99=quantiles(_milliseconds(beside), n=100)[98],
    )


async def _beside(site: Site, given: Order, probes: int) -> list[Sent]:
    """Probes through the other stages while the slow one has more than it can do."""
    peer = PEERS["ragstream"]
    order = replace(given, prefix=(await site.order(peer)).prefix)
    async with (
        site.gauge(order) as whole,
        site.gauge(order, at=BEFORE_ANSWER) as others,
        site.process(peer, order) as process,
    ):
        await whole.warm_up(process, records=100)
        backlog = (await others.burst(1600)).sent  # has left the stages before the slow one
        assert backlog
        beside = await others.steady(20, probes)
        await others.arrival(beside, timeout=60)
    return beside


def _milliseconds(sent: list[Sent]) -> list[float]:
    return [one.latency * 1000 for one in sent]
