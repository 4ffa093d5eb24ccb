"""``python -m tests.chaos [NAME …]``: run scenarios, all by default, and print a table."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time

from tests.chaos.runner import run, table
from tests.chaos.scenarios import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; all by default")
    parser.add_argument("--list", action="store_true", help="name the scenarios and exit")
    parser.add_argument("--seed", type=int, help="of the random choices; a new one by default")
    parser.add_argument("--queries", type=int, help="instead of the scenario's own number")
    parser.add_argument("--short", action="store_true", help="the form that the tests run")
    options = parser.parse_args()
    if unknown := set(options.names) - SCENARIOS.keys():
        parser.error(f"no such scenario: {', '.join(sorted(unknown))} (see --list)")
    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:<18}{scenario.title}")
        return 0
    # Clients of services that are killed on purpose have a lot to say.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    seed = int(time.time()) % 100_000 if options.seed is None else options.seed
    results = []
    for name in options.names or SCENARIOS:
        print(f"{name}: {SCENARIOS[name].title} (seed {seed})", flush=True)
        scenario = SCENARIOS[name]
        result = asyncio.run(run(scenario, seed=seed, queries=options.queries, short=options.short))
        results.append(result)
        print(f"{table([result])}\n", flush=True)
    if len(results) > 1:
        print(table(results))
    return 1 if any(result.complaints for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
