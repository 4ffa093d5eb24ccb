"""Four hops of 1 KB records: latency, burst, CPU and memory of every peer, by turns.

Every peer gets a fresh process and fresh topics in each round; the order moves on by one from
round to round. Latency is from handing a record to the generator's producer until it is seen at
the last topic, at 20 records/s. A burst is sent as fast as one producer can, and lasts until its
last record is seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from benchmarks.site import PEERS, Peer, Site

__all__ = ["MEASURES", "Plan", "Round", "compare", "measure"]

FLOOR = "raw"


@dataclass(frozen=True, slots=True)
class Plan:
    """``steady``: records at ``rate`` a second; ``burst``: records at once."""

    rounds: int = 3
    rate: float = 20.0
    steady: int = 160
    burst: int = 3000
    warm_up: int = 300

    def quick(self) -> Plan:
        return Plan(self.rounds, self.rate, steady=60, burst=1000, warm_up=100)


@dataclass(frozen=True, slots=True)
class Round:
    """One peer in one round. Milliseconds, records a second, CPU milliseconds a record, MiB.

    ``copies``: arrivals beyond one a record.
    """

    peer: str
    p50: float
    p99: float
    burst: float
    cpu: float
    cpu_steady: float
    memory: float
    copies: int


#: Measure, its heading, and whether more of it is better.
MEASURES = {
    "p50": ("p50 at 20/s, ms", False),
    "p99": ("p99 at 20/s, ms", False),
    "burst": ("burst, records/s", True),
    "cpu": ("CPU ms/record in the burst", False),
    "cpu_steady": ("CPU ms/record at 20/s", False),
    "memory": ("peak memory, MiB", False),
}


async def measure(
    site: Site, names: Sequence[str], plan: Plan, report: Callable[[str], None]
) -> list[Round]:
    rounds = []
    for number in range(plan.rounds):
        turn = number % len(names)
        for name in [*names[turn:], *names[:turn]]:
            one = await _round(site, PEERS[name], plan)
            report(
                f"round {number + 1}  {name:15} p50 {one.p50:6.1f} ms  p99 {one.p99:6.1f} ms  "
                f"burst {one.burst:6.0f}/s  CPU {one.cpu:5.2f} ms  {one.memory:4.0f} MiB"
            )
            rounds.append(one)
    return rounds


async def _round(site: Site, peer: Peer, plan: Plan) -> Round:
    order = await site.order(peer)
    async with site.gauge(order) as gauge, site.process(peer, order) as process:
        await gauge.warm_up(process, records=plan.warm_up)
        await asyncio.sleep(1)  # what the burst left behind: commits, garbage
        before = process.cpu()
        steady = await gauge.steady(plan.rate, plan.steady)
        if missing := await gauge.arrival(steady, timeout=30):
            raise RuntimeError(f"{peer.name}: {len(missing)} records did not arrive")
        between = process.cpu()
        burst = await gauge.burst(plan.burst)
        after = process.cpu()
        latencies = [one.latency * 1000 for one in steady]
        return Round(
            peer=peer.name,
            p50=median(latencies),
            p99=quantiles(latencies, n=100)[98],
            burst=burst.rate,
            cpu=(after - between) * 1000 / plan.burst,
            cpu_steady=(between - before) * 1000 / plan.steady,
            memory=process.peak_memory(),
            copies=sum(one.copies - 1 for one in (*steady, *burst.sent)),
        )


def compare(rounds: Sequence[Round]) -> dict[str, dict[str, dict[str, float]]]:
    """By peer and measure: median, least and most over the rounds, and the ratio to the floor.

    A ratio is the median of the ratios within each round, so that a machine that is slower in
    one round than in another does not show.
    """
    values: dict[str, list[dict[str, Any]]] = {}
    for one in rounds:
        values.setdefault(one.peer, []).append(asdict(one))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for peer, own in values.items():
        found[peer] = {}
        for name in MEASURES:
            series = [one[name] for one in own]
            summary = {"median": median(series), "least": min(series), "most": max(series)}
            if FLOOR in values:
                floor = [one[name] for one in values[FLOOR]]
                summary["ratio"] = median(a / b for a, b in zip(series, floor, strict=True))
            found[peer][name] = summary
    return found
