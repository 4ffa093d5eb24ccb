"""How the topics are made: partitions, retention and limits. The one place that says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ragstream.domain.topics import TOPIC_KINDS, TopicKind, Topics

__all__ = ["CONSUMERS", "DAY", "Environment", "TopicDeclaration", "declare", "groups", "min_insync"]

Environment = Literal["production", "development"]

HOUR = 3_600_000
DAY = 24 * HOUR
MEBIBYTE = 1024 * 1024

#: Name of the stage that reads a topic in its own group; `answers` is what history is made of.
CONSUMERS = {
    "queries": "route",
    "routed": "retrieve",
    "retrieved": "rerank",
    "reranked": "answer",
    "answers": "history",
    "documents": "ingest",
}

#: Fixed for a version of a topic: another number moves keys to other partitions, which breaks
#: their order. More of them is a new version.
_PARTITIONS: dict[Environment, int] = {"production": 12, "development": 4}
_FEW = 3
#: Longer than the longest outage that is to be survived, and the longest deadline.
_RETENTION = {
    "control": DAY,
    "answer-deltas": HOUR,
    "documents": 30 * DAY,
}
_DLT_RETENTION = 30 * DAY


@dataclass(frozen=True, slots=True)
class TopicDeclaration:
    """A topic as it must be. ``retention_ms``: milliseconds; ``max_bytes``: of one record batch;
    ``group``: consumer group of the stage that reads it."""

    name: str
    event: str
    purpose: str
    partitions: int
    retention_ms: int
    max_bytes: int
    replication: int
    group: str | None = None
    dead_letter: bool = False

    def config(self) -> dict[str, str]:
        """Topic configuration as Kafka takes it."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self.max_bytes),
            "min.insync.replicas": str(min_insync(self.replication)),
        }


def min_insync(replication: int) -> int:
    """Replicas that must have a record before it is confirmed: one may be down."""
    return 2 if replication >= 3 else 1


def groups(declared: Iterable[TopicDeclaration]) -> dict[str, str]:
    """Topic by the consumer group that reads it."""
    return {topic.group: topic.name for topic in declared if topic.group is not None}


def declare(
    topics: Topics | None = None,
    environment: Environment = "production",
    *,
    replication: int | None = None,
    partitions: int | None = None,
) -> tuple[TopicDeclaration, ...]:
    """Every topic, dead-letter topics included. ``partitions``: instead of the declared number,
    for all topics but the small ones (control, rejections, dead letters)."""
    topics = topics or Topics()
    copies = replication or (3 if environment == "production" else 1)
    wide = partitions or _PARTITIONS[environment]
    declared = []
    for kind in TOPIC_KINDS:
        declared.append(_topic(topics, kind, wide, copies))
        if kind.dlt:
            declared.append(_dead_letters(topics, kind, copies))
    return tuple(declared)


def _topic(topics: Topics, kind: TopicKind, partitions: int, replication: int) -> TopicDeclaration:
    stage = CONSUMERS.get(kind.name)
    small = kind.name in ("control", "rejections")
    return TopicDeclaration(
        name=topics.named(kind.name),
        event=kind.event,
        purpose=kind.purpose,
        partitions=min(_FEW, partitions) if small else partitions,
        retention_ms=_RETENTION.get(kind.name, 7 * DAY),
        max_bytes=MEBIBYTE,
        replication=replication,
        group=topics.group(stage) if stage else None,
    )


def _dead_letters(topics: Topics, kind: TopicKind, replication: int) -> TopicDeclaration:
    source = topics.named(kind.name)
    return TopicDeclaration(
        name=topics.dlt(source),
        event=kind.event,
        purpose=f"Records of {source} that could not be processed.",
        partitions=_FEW,
        retention_ms=_DLT_RETENTION,
        max_bytes=4 * MEBIBYTE,  # a record that was too large has to fit with its headers
        replication=replication,
        dead_letter=True,
    )
