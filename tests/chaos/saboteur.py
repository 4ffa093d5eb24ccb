"""The ordinary worker, with a fault at a place that no signal from outside can hit.

    python -m tests.chaos.saboteur '{"at": "recorded", "nth": 7, "do": "kill"}' [stage …]

``at``: "published" (the broker has confirmed a record of ``topic``), "recorded" (the ledger holds
an outcome that is not published yet) or "committing" (offsets are about to be committed); there,
at the ``nth`` call, the process kills itself ("kill") or blocks its event loop ("stall").
``clock``: seconds that its clock is wrong. ``trace``: file that gets a line for each publication.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from ragstream.adapters.clock import SystemClock
from ragstream.adapters.kafka import KafkaPublisher
from ragstream.adapters.postgres import PostgresLedger
from ragstream.delivery.dispatcher import Dispatcher

__all__ = ["SABOTAGED", "Sabotage"]

#: What the log says immediately before the fault; the query follows.
SABOTAGED = "sabotage at "


@dataclass(frozen=True, slots=True)
class Sabotage:
    """See the module."""

    at: Literal["published", "recorded", "committing", "never"] = "never"
    nth: int = 1
    do: Literal["kill", "stall"] = "kill"
    topic: str = ""
    clock: float = 0.0
    trace: str = ""

    @property
    def program(self) -> tuple[str, ...]:
        """For ``Deployment.launch``."""
        return ("tests.chaos.saboteur", json.dumps(asdict(self)))


class _Trigger:
    """Counts calls and commits the deed at the one that was asked for."""

    def __init__(self, sabotage: Sabotage) -> None:
        self._sabotage = sabotage
        self._calls = 0

    def pull(self, subject: object) -> None:
        self._calls += 1
        if self._calls != self._sabotage.nth:
            return
        sys.stderr.write(f"{SABOTAGED}{self._sabotage.at}: {subject}\n")
        sys.stderr.flush()
        if self._sabotage.do == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)


def _after_publishing(trigger: _Trigger, topic: str) -> None:
    publish = KafkaPublisher.publish

    async def published(self: Any, records: Any) -> None:
        await publish(self, records)
        if any(record.topic == topic for record in records):
            trigger.pull(_subject(records[0]))

    KafkaPublisher.publish = published  # type: ignore[method-assign]


def _after_recording(trigger: _Trigger) -> None:
    record = PostgresLedger.record

    async def recorded(self: Any, key: Any, outcome: Any) -> Any:
        stored = await record(self, key, outcome)
        trigger.pull(key.query_id)
        return stored

    PostgresLedger.record = recorded  # type: ignore[method-assign]


def _before_committing(trigger: _Trigger) -> None:
    committable = Dispatcher.committable

    def about_to_commit(self: Any) -> Any:
        offsets = committable(self)
        if offsets:
            trigger.pull(offsets)
        return offsets

    Dispatcher.committable = about_to_commit  # type: ignore[method-assign]


def _trace(path: Path) -> None:
    """One line when a record is handed to the producer, one when partitions are assigned."""
    file = path.open("a", buffering=1)
    publish, assign = KafkaPublisher.publish, Dispatcher.assign

    def note(kind: str, **facts: Any) -> None:
        file.write(json.dumps({"at": time.time(), "kind": kind, **facts}) + "\n")

    async def publishing(self: Any, records: Any) -> None:
        for record in records:
            note("publish", topic=record.topic, subject=_subject(record))
        await publish(self, records)

    def assigning(self: Any, partitions: Any) -> None:
        partitions = list(partitions)
        note("assign", topics=sorted({one.topic for one in partitions}))
        assign(self, partitions)

    KafkaPublisher.publish = publishing  # type: ignore[method-assign]
    Dispatcher.assign = assigning  # type: ignore[method-assign]


def _shift_clock(seconds: float) -> None:
    now, system_time = SystemClock.now, time.time

    def shifted(self: SystemClock) -> datetime:
        return now(self) + timedelta(seconds=seconds)

    SystemClock.now = shifted  # type: ignore[method-assign]
    time.time = lambda: system_time() + seconds


def _subject(record: Any) -> str:
    return str(dict(record.headers).get("ce_subject", b"").decode())


def main(arguments: list[str]) -> None:
    sabotage = Sabotage(**json.loads(arguments[0]))
    trigger = _Trigger(sabotage)
    prepare: dict[str, Callable[[], None]] = {
        "published": lambda: _after_publishing(trigger, sabotage.topic),
        "recorded": lambda: _after_recording(trigger),
        "committing": lambda: _before_committing(trigger),
        "never": lambda: None,
    }
    prepare[sabotage.at]()
    if sabotage.trace:
        _trace(Path(sabotage.trace))
    if sabotage.clock:
        _shift_clock(sabotage.clock)
    sys.argv = ["ragstream", "worker", *arguments[1:]]
    from ragstream.cli import main as command

    command()


if __name__ == "__main__":
    main(sys.argv[1:])
