"""The one load generator and the one measuring consumer, the same for every chain.

Records are queries of 1 KB with CloudEvents headers. They are recognised at the end by their key,
which every chain keeps. Both ends are in one process and use one clock.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.peers.common import PARTITIONS, Order, chain_topics
from benchmarks.process import ChainProcess
from ragstream.domain.events import Query
from ragstream.domain.records import OutboundRecord
from ragstream.domain.topics import Topics
from ragstream.wire import encode, event_id, record_key

__all__ = ["Burst", "Gauge", "Sent"]

BYTES = 1024
#: Seconds; far beyond what any chain takes, so that a fault ends as one.
PATIENCE = 120.0


@dataclass(slots=True)
class Sent:
    """A record under way. Times are monotonic seconds."""

    key: bytes
    at: float = 0.0
    partition: int = -1
    arrived: float | None = None
    copies: int = 0

    @property
    def latency(self) -> float:
        assert self.arrived is not None
        return self.arrived - self.at


@dataclass(slots=True)
class Burst:
    """Records sent at once. ``seconds``: from the first one sent to the last one's arrival."""

    sent: list[Sent] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.sent) / self.seconds


class Gauge:
    """Sends into a chain's first topic and watches its last, or another one of its topics."""

    def __init__(self, order: Order, *, at: int = -1) -> None:
        names = chain_topics(Topics(order.prefix))
        self.source, self.target = names[0], names[at]
        self._kafka = order.kafka
        self._name = uuid.uuid4().hex[:8]
        self._number = 0
        self._sent: dict[bytes, Sent] = {}
        self._producer = AIOKafkaProducer(bootstrap_servers=order.kafka, acks="all")
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=order.kafka,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=250,
        )
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await asyncio.gather(self._producer.start(), self._consumer.start())
        self._consumer.assign([TopicPartition(self.target, n) for n in range(PARTITIONS)])
        self._reading = asyncio.create_task(self._read())

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        await asyncio.gather(self._producer.stop(), self._consumer.stop())

    async def warm_up(self, *processes: ChainProcess, records: int = 300) -> None:
        """Return when everything that the chain needs is connected and has been used."""
        first: list[Sent] = []
        ending = time.monotonic() + PATIENCE / 2
        while not any(one.arrived for one in first):
            for process in processes:
                process.check()
                if time.monotonic() > ending:
                    raise process.fault("does not work")
            first.append(await self.send())
            await asyncio.sleep(0.2)
        await self.arrival(first)
        # Enough keys that every partition of every hop has had some.
        await self.burst(records)

    async def send(self) -> Sent:
        """Send one record and return when the broker has it."""
        return await self._send(self._record())

    async def steady(self, rate: float, count: int) -> list[Sent]:
        """Records at a fixed rate, each at its own time whatever became of those before it."""
        began = time.monotonic() + 0.05
        sending = []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            sending.append(asyncio.create_task(self.send()))
        return await asyncio.gather(*sending)

    async def burst(self, count: int, *, wait: bool = True) -> Burst:
        """All records at once, and how long until the last has arrived."""
        records = [self._record() for _ in range(count)]
        began = time.monotonic()
        burst = Burst()
        pending = []
        for record in records:
            one = self._note(record)
            burst.sent.append(one)
            pending.append(
                await self._producer.send(
                    self.source, record.value, key=record.key, headers=list(record.headers)
                )
            )
        await asyncio.gather(*pending)
        if wait:
            if missing := await self.arrival(burst.sent):
                raise RuntimeError(f"{len(missing)} of {count} records did not arrive")
            burst.seconds = max(one.arrived or 0.0 for one in burst.sent) - began
        return burst

    async def arrival(self, sent: Sequence[Sent], *, timeout: float = PATIENCE) -> list[Sent]:
        """Wait until these have arrived; those that have not within ``timeout`` seconds."""
        ending = time.monotonic() + timeout
        while missing := [one for one in sent if one.arrived is None]:
            if time.monotonic() > ending:
                return missing
            await asyncio.sleep(0.05)
        return []

    def _record(self) -> OutboundRecord:
        self._number += 1
        query_id = f"{self._name}-{self._number:08d}"
        empty = len(Query(query_id=query_id, text="x").model_dump_json(exclude_none=True))
        query = Query(query_id=query_id, text="x" * (BYTES + 1 - empty), cache="bypass")
        return encode(
            query,
            topic=self.source,
            key=record_key("default", query_id),
            id=event_id("default", query_id, 0, "query"),
            time=datetime.now(UTC),
            subject=query_id,
        )

    def _note(self, record: OutboundRecord) -> Sent:
        assert record.key is not None
        one = self._sent[record.key] = Sent(record.key, time.monotonic())
        return one

    async def _send(self, record: OutboundRecord) -> Sent:
        one = self._note(record)
        place = await self._producer.send_and_wait(
            self.source, record.value, key=record.key, headers=list(record.headers)
        )
        one.partition = place.partition
        return one

    async def _read(self) -> None:
        while True:
            batches = await self._consumer.getmany(timeout_ms=1000)
            now = time.monotonic()
            for messages in batches.values():
                for message in messages:
                    one = self._sent.get(message.key)
                    if one is not None:
                        one.copies += 1
                        one.arrived = one.arrived or now
