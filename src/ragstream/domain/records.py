"""Records as a bus carries them, and the identity of an outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "Headers",
    "InboundRecord",
    "OutboundRecord",
    "OutcomeKey",
    "Replay",
    "StoredOutcome",
    "TopicPartition",
]

#: Order and repetition are kept, as Kafka keeps them.
Headers = tuple[tuple[str, bytes], ...]


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class InboundRecord:
    """A record as it was read. ``timestamp``: seconds since the epoch, as the broker says."""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def header(self, name: str) -> bytes | None:
        """The last value of a header (Kafka's own rule for repeated ones), or None."""
        return last_header(self.headers, name)


@dataclass(frozen=True, slots=True)
class OutboundRecord:
    """A record to publish. ``value``: None is a tombstone; ``partition``: None lets the key decide
    (murmur2)."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


class OutcomeKey(NamedTuple):
    tenant: str
    query_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """What the ledger holds for a key: the request's fingerprint and the record, byte for byte."""

    fingerprint: str
    record: OutboundRecord


class Replay(NamedTuple):
    """A record that is published again, as a generation of its query; ``finished``: it was."""

    replay_id: str
    generation: int
    finished: bool = False


def last_header(headers: Iterable[tuple[str, bytes]], name: str) -> bytes | None:
    found = None
    for key, value in headers:
        if key == name:
            found = value
    return found
