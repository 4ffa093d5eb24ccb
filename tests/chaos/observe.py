"""Looking at what a run has left: every record of every topic, the tables, the processes."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import asyncpg
import psutil
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from tests.chaos.arena import Arena, Scenario
from tests.chaos.invariants import Observation, Origin, Outcome, Seen
from tests.chaos.waiting import growing

__all__ = ["MARK", "left_over", "observe"]

#: Variable that everything started by a run inherits.
MARK = "CHAOS_RUN"


async def observe(arena: Arena, scenario: Scenario) -> Observation:
    """To be called when all is settled; see ``Observation``. Processes are for later."""
    site = arena.site
    await _read_to_the_end(arena)
    database = await asyncpg.connect(
        arena.services.endpoints.postgres, server_settings={"search_path": site.topics.prefix}
    )
    try:
        history = await database.fetch("SELECT query_id FROM answers")
        ledger = await database.fetch("SELECT query_id, value FROM outcomes")
    finally:
        await database.close()
    dlts = {topic for topic in site.topics.all() if topic.endswith(".dlt")}
    return Observation(
        accepted=frozenset(arena.load.asked),
        answers=site.topics.answers,
        records={
            topic: [_seen(one) for one in site.log.of(topic) if _place(one) not in arena.poison]
            for topic in site.topics.all()
        },
        history=[row["query_id"] for row in history],
        ledger=[Outcome(row["query_id"], row["value"]) for row in ledger],
        lag=await arena.lag(),
        dead_letter_topics=frozenset(dlts),
        poison=arena.poison,
        allowed=scenario.statuses,
    )


async def _read_to_the_end(arena: Arena) -> None:
    """Return when the log has every record. Without transactions, offsets count them."""
    site = arena.site
    async with AIOKafkaConsumer(
        *site.topics.all(), bootstrap_servers=site.connection.bootstrap_servers
    ) as consumer:
        for topic in site.topics.all():
            partitions = [
                TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)
            ]
            written = sum((await consumer.end_offsets(partitions)).values())
            await growing(partial(_read, arena, topic), written, f"reading {topic} to its end")


def _read(arena: Arena, topic: str) -> int:
    return len(arena.site.log.of(topic))


def _seen(record: ConsumerRecord) -> Seen:
    return Seen(record.key, record.value, tuple(record.headers), record.timestamp / 1000)


def _place(record: ConsumerRecord) -> Origin:
    return record.topic, record.partition, record.offset


def left_over(mark: str, folder: Path) -> list[str]:
    """Processes of a run that still live: by the mark in their environment, or, for a server that
    overwrites its own, by the folder that it works in."""
    found = []
    for one in psutil.process_iter():
        if one.pid == os.getpid():
            continue
        try:
            if one.environ().get(MARK) == mark or Path(one.cwd()).is_relative_to(folder):
                found.append(f"{one.pid} {one.name()} ({one.status()})")
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found
