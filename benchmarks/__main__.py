"""``python -m benchmarks``: run cases and write their results.

python -m benchmarks                                      everything but the soak
python -m benchmarks chain --peers raw,ragstream --rounds 1 --quick
python -m benchmarks soak
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.cases import backlog, chain, failover, slow, soak
from benchmarks.site import PEERS, Site, running_site

CASES = ("chain", "slow", "backlog", "failover", "soak")
USUAL = CASES[:-1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all but soak by default")
    parser.add_argument("--peers", default=",".join(PEERS), help="for the chain, comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer records: a look, no result")
    parser.add_argument("--minutes", type=float, default=10, help="of the soak")
    parser.add_argument("--stack", type=Path, help="state folder of servers that run already")
    parser.add_argument("--name", default="latest", help="of the files under benchmarks/results")
    given = parser.parse_args()
    given.cases = given.cases or list(USUAL)
    given.peers = given.peers.split(",")
    if unknown := {*given.cases} - {*CASES} | {*given.peers} - {*PEERS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return given


async def run(given: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {"machine": report.machine()}
    async with running_site(given.stack) as site:
        for case in given.cases:
            began = time.monotonic()
            say(f"--- {case}")
            results |= await run_case(case, site, given)
            say(f"    {time.monotonic() - began:.0f} s")
    return results


async def run_case(case: str, site: Site, given: argparse.Namespace) -> dict[str, Any]:
    if case == "chain":
        plan = chain.Plan(rounds=given.rounds)
        rounds = await chain.measure(site, given.peers, plan.quick() if given.quick else plan, say)
        comparison = chain.compare(rounds)
        return {
            "chain": {name: comparison[name] for name in given.peers},
            "rounds": [asdict(one) for one in rounds],
        }
    if case == "slow":
        return {case: asdict(await slow.measure(site, records=800 if given.quick else 3200))}
    if case == "backlog":
        return {case: asdict(await backlog.measure(site))}
    if case == "failover":
        return {case: [asdict(one) for one in await failover.measure(site)]}
    samples = await soak.measure(site, say, seconds=given.minutes * 60)
    return {case: [asdict(one) for one in samples]}


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader at first
    given = arguments()
    results = asyncio.run(run(given))
    if "chain" in results:
        say(report.table(results["chain"]))
    for line in report.targets(results):
        say(line)
    say(str(report.write(results, given.name)))
    if "chain" in results:
        try:
            say(str(report.chart(results["chain"], given.name)))
        except ImportError:
            say("no chart: matplotlib is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
