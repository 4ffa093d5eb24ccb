"""Running a scenario, and what it comes to."""

from __future__ import annotations

import os
import time
import traceback
import uuid
from collections import Counter
from dataclasses import dataclass, replace

from tests.chaos.arena import Arena, Scenario, arena
from tests.chaos.invariants import Observation, complaints, duplicates, statuses
from tests.chaos.observe import MARK, left_over, observe
from tests.support.stack import reachable_folder

__all__ = ["Result", "run", "table"]


HEADINGS = (
    "scenario",
    "seed",
    "queries",
    "answers",
    "statuses",
    "faults",
    "served again (s)",
    "slowest (s)",
    "duplicates on the wire",
    "time (s)",
    "result",
)


@dataclass(frozen=True, slots=True)
class Result:
    """``served_again``: seconds from each fault to the next answer; ``slowest``: from a query's
    confirmation to its first answer; ``complaints``: empty if all invariants hold."""

    name: str
    seed: int
    complaints: list[str]
    seconds: float
    accepted: int = 0
    answers: int = 0
    statuses: Counter[str] | None = None
    duplicates: dict[str, int] | None = None
    served_again: tuple[float, ...] = ()
    slowest: float = 0.0
    faults: int = 0
    notes: tuple[str, ...] = ()


async def run(
    scenario: Scenario, *, seed: int, queries: int | None = None, short: bool = False
) -> Result:
    """Run a scenario to its end on services of its own. A scenario that could not be played is a
    complaint too."""
    began = time.monotonic()
    mark = uuid.uuid4().hex
    os.environ[MARK] = mark
    total = scenario.queries[short] if queries is None else queries
    stage: Arena | None = None
    seen: Observation | None = None
    found: list[str] = []
    try:
        with reachable_folder() as folder:
            try:
                async with arena(scenario, folder, seed=seed, queries=total, short=short) as stage:
                    try:
                        await scenario.run(stage)
                        await stage.settle()
                        await stage.stop()
                        seen = await observe(stage, scenario)
                    except BaseException:
                        _tell_logs(stage)
                        raise
                    seen = replace(seen, left=left_over_workers(stage))
            except Exception as error:
                traceback.print_exc()
                found.append(f"{type(error).__name__}: {error}")
            found += [f"still running: {one}" for one in left_over(mark, folder)]
            if seen is not None:
                found += complaints(seen)
                if found and stage is not None:
                    _tell_logs(stage)
    finally:
        del os.environ[MARK]
    result = Result(scenario.name, seed, found, time.monotonic() - began)
    if seen is None or stage is None:
        return result
    prefix = f"{stage.site.topics.prefix}."
    answered = {one.subject: one.timestamp for one in reversed(seen.records[seen.answers])}
    asked = stage.load.asked
    return replace(
        result,
        accepted=len(seen.accepted),
        answers=len({(one.subject, one.identity) for one in seen.records[seen.answers]}),
        statuses=statuses(seen),
        duplicates={
            topic.removeprefix(prefix).replace(".v1", ""): n
            for topic, n in duplicates(seen).items()
        },
        served_again=_served_again(stage.faults, sorted(answered.values())),
        slowest=max((answered[id] - at for id, at in asked.items() if id in answered), default=0),
        faults=len(stage.faults),
        notes=tuple(stage.notes),
    )


def left_over_workers(stage: Arena) -> list[str]:
    return [f"worker {w.process.pid}" for w in stage.workers if w.process.returncode is None]


def _served_again(faults: list[float], answered: list[float]) -> tuple[float, ...]:
    found = []
    for fault in faults:
        later = next((at for at in answered if at > fault + 0.02), None)
        if later is not None:
            found.append(later - fault)
    return tuple(found)


def _tell_logs(stage: Arena) -> None:
    for number, worker in enumerate(stage.workers, 1):
        print(f"--- worker {number} (exit code {worker.process.returncode})")
        print(worker.log[-4000:])


def table(results: list[Result]) -> str:
    """The results for people."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    for one in results:
        again = sorted(one.served_again)
        rows.append(
            (
                one.name,
                str(one.seed),
                str(one.accepted),
                str(one.answers),
                _counts(one.statuses or {}),
                str(one.faults),
                f"{again[len(again) // 2]:.1f} ≤ {again[-1]:.1f}" if again else "-",
                f"{one.slowest:.1f}",
                _counts(one.duplicates or {}),
                f"{one.seconds:.0f}",
                "FAILED" if one.complaints else "ok",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    for one in results:
        lines += [f"{one.name}: {note}" for note in one.notes]
        lines += [f"{one.name}: FAILED: {complaint}" for complaint in one.complaints]
    return "\n".join(line.rstrip() for line in lines)


def _counts(counts: dict[str, int] | Counter[str]) -> str:
    return " ".join(f"{name}:{n}" for name, n in sorted(counts.items())) or "-"
