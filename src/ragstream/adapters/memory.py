"""An event bus inside the process.

For tests, and for embedding the pipeline in a program that has no Kafka. It keeps what makes
Kafka Kafka for the pipeline: partitioned logs, keys that stay in one partition, consumer groups
with committed offsets, and redelivery of what was not committed. Nothing survives the process.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from ragstream.domain.errors import ConfigurationError, PermanentError
from ragstream.domain.events import AnswerDelta, Query
from ragstream.domain.records import InboundRecord, OutboundRecord, TopicPartition
from ragstream.wire import encode_delta

__all__ = ["MemoryBus", "MemoryDeltas"]


class MemoryBus:
    """Topics with ``partitions`` partitions each. Unknown topics are refused, as on a broker that
    does not create topics by accident."""

    def __init__(
        self, topics: Iterable[str], *, partitions: int = 4, max_bytes: int = 4 * 1024 * 1024
    ) -> None:
        self._partitions = partitions
        self._max_bytes = max_bytes
        self._logs: dict[TopicPartition, list[InboundRecord]] = {}
        self._committed: dict[tuple[str, TopicPartition], int] = defaultdict(int)
        self._grown = asyncio.Event()
        self._keyless = 0
        for topic in topics:
            self.create(topic)

    def create(self, topic: str) -> None:
        for partition in range(self._partitions):
            self._logs.setdefault(TopicPartition(topic, partition), [])

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [name for name in self._logs if name.topic == topic]

    def records(self, topic: str) -> list[InboundRecord]:
        """All records of a topic, partition by partition."""
        return [record for name in self.partitions_of(topic) for record in self._logs[name]]

    async def publish(self, records: Sequence[OutboundRecord]) -> None:
        self.append(records)

    def append(self, records: Sequence[OutboundRecord]) -> None:
        """Publish without waiting: there is nothing to wait for."""
        try:
            for record in records:
                self._append(record)
        finally:  # one that is refused does not take back those before it
            grown, self._grown = self._grown, asyncio.Event()
            grown.set()

    def read(self, partition: TopicPartition, offset: int, limit: int) -> list[InboundRecord]:
        return self._logs[partition][offset : offset + limit]

    def committed(self, group: str, partition: TopicPartition) -> int:
        return self._committed[group, partition]

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._committed[group, partition] = offset

    def lag(self, group: str, topic: str) -> int:
        return sum(
            len(self._logs[name]) - self.committed(group, name)
            for name in self.partitions_of(topic)
        )

    async def wait_for_growth(self) -> None:
        """Return after the next publish."""
        await self._grown.wait()

    @asynccontextmanager
    async def tail(self, topics: Sequence[str]) -> AsyncIterator[AsyncIterator[InboundRecord]]:
        if missing := [topic for topic in topics if not self.partitions_of(topic)]:
            raise ConfigurationError(f"no such topic: {', '.join(sorted(missing))}")
        ends = {
            name: len(self._logs[name]) for topic in topics for name in self.partitions_of(topic)
        }
        yield self._follow(ends)

    async def _follow(self, positions: dict[TopicPartition, int]) -> AsyncIterator[InboundRecord]:
        while True:
            grown = self._grown
            for name in positions:
                for record in self.read(name, positions[name], limit=1000):
                    positions[name] = record.offset + 1
                    yield record
            if grown is self._grown:
                await grown.wait()

    def _append(self, record: OutboundRecord) -> None:
        count = len(self.partitions_of(record.topic))
        if not count:
            raise PermanentError(f"no such topic: {record.topic}")
        if len(record.value or b"") > self._max_bytes:
            raise PermanentError(f"the record is larger than {self._max_bytes} bytes")
        if record.partition is not None:
            partition = record.partition
        elif record.key is not None:
            partition = zlib.crc32(record.key) % count
        else:
            partition = self._keyless = (self._keyless + 1) % count
        name = TopicPartition(record.topic, partition)
        if name not in self._logs:
            raise PermanentError(f"no such partition: {record.topic}[{partition}]")
        log = self._logs[name]
        log.append(
            InboundRecord(
                record.topic,
                partition,
                len(log),
                time.time(),
                record.key,
                record.value,
                record.headers,
            )
        )


class MemoryDeltas:
    """Publishes answer deltas to the in-memory bus."""

    def __init__(self, bus: MemoryBus, topic: str) -> None:
        self._bus = bus
        self._topic = topic

    def emit(self, query: Query, delta: AnswerDelta) -> None:
        self._bus.append([encode_delta(query, delta, self._topic)])
