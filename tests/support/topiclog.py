"""What an ordinary consumer sees on all topics of a prefix."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, ConsumerRecord

from ragstream.domain.topics import Topics

__all__ = ["TopicLog", "body", "following", "headers"]


def body(record: ConsumerRecord) -> dict[str, Any]:
    """The event of a record."""
    return dict(orjson.loads(record.value))


def headers(record: ConsumerRecord) -> dict[str, bytes]:
    return dict(record.headers)


class TopicLog:
    """Records by topic, in the order in which they came."""

    def __init__(self, topics: Topics, patience: float) -> None:
        self._topics = topics
        self._patience = patience
        self._records: dict[str, list[ConsumerRecord]] = defaultdict(list)
        self._grown = asyncio.Condition()

    def of(self, topic: str, subject: str | None = None) -> list[ConsumerRecord]:
        """Records of a topic; ``subject``: with this ``ce_subject`` only."""
        found = self._records[topic]
        if subject is None:
            return list(found)
        return [one for one in found if headers(one).get("ce_subject") == subject.encode()]

    def answers(self, query_id: str) -> list[ConsumerRecord]:
        return self.of(self._topics.answers, query_id)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds; it is looked at whenever records came."""
        try:
            async with asyncio.timeout(self._patience), self._grown:
                await self._grown.wait_for(condition)
        except TimeoutError:
            counts = {topic: len(records) for topic, records in self._records.items()}
            raise AssertionError(f"did not come: {condition}; seen {counts}") from None

    async def next(self, topic: str, subject: str | None = None) -> ConsumerRecord:
        """The last record of a topic, and of a subject, when there is one."""
        await self.until(lambda: bool(self.of(topic, subject)))
        return self.of(topic, subject)[-1]

    async def answer(self, query_id: str) -> dict[str, Any]:
        """The answer to a query, when it comes."""
        return body(await self.next(self._topics.answers, query_id))

    async def follow(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            batches = await consumer.getmany(timeout_ms=500)
            if batches:
                async with self._grown:
                    for records in batches.values():
                        self._records[records[0].topic] += records
                    self._grown.notify_all()


@asynccontextmanager
async def following(bootstrap: str, topics: Topics, patience: float) -> AsyncIterator[TopicLog]:
    """The log of all topics of a prefix, from their beginning."""
    consumer = AIOKafkaConsumer(
        *topics.all(),
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=100,
    )
    log = TopicLog(topics, patience)
    async with consumer:
        task = asyncio.create_task(log.follow(consumer))
        try:
            yield log
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
