"""Queries at a steady pace, from an ordinary producer."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.chaos.waiting import growing
from tests.support.deployment import Deployment
from tests.support.topiclog import headers

__all__ = ["Load"]

QUESTIONS = (
    "What is the default of acks in Kafka 3.7?",
    "What is the default of acks in Kafka 2.8?",
    "What is the default of linger.ms in Kafka 3.7?",
    "How long does the producer of Kafka 2.8 wait for further records?",
    "What does a tombstone remove?",
    "What does log compaction keep?",
)
#: Seconds between two handfuls of queries.
TICK = 0.1
CONVERSATIONS = 20


class Load:
    """``total`` queries, ``rate`` a second, of which at most ``ahead`` wait for their answers.

    The bound makes the load last as long as its faults do, however slow the machine is. ``asked``
    holds when each was confirmed by the broker: from then on it has to be answered.
    """

    def __init__(
        self,
        site: Deployment,
        rng: random.Random,
        *,
        total: int,
        rate: float = 60.0,
        ahead: int = 300,
    ) -> None:
        self.asked: dict[str, float] = {}
        self.total = total
        self._site = site
        self._rng = rng
        self._rate = rate
        self._ahead = ahead
        self._answered: set[bytes] = set()
        self._seen = 0
        self.fields: dict[str, Any] = {}

    def answered(self) -> int:
        """Queries that have an answer."""
        records = self._site.log.of(self._site.topics.answers)
        for record in records[self._seen :]:
            self._answered.add(headers(record).get("ce_subject", b""))
        self._seen = len(records)
        return len(self._answered)

    async def until_answered(self, count: int) -> None:
        await growing(self.answered, min(count, self.total), "answers")

    async def run(self) -> None:
        """Ask everything. A query whose record is not confirmed is asked again."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self._site.connection.bootstrap_servers, acks="all", linger_ms=5
        )
        async with producer:
            queries = [self._query(number) for number in range(self.total)]
            waiting: set[asyncio.Task[None]] = set()
            due = 0.0
            while queries:
                due = min(due + self._rate * TICK, 2 * self._rate * TICK)
                room = self._ahead - (self.total - len(queries) - self.answered())
                handful = max(0, min(int(due), room, len(queries)))
                due -= handful
                for query in queries[:handful]:
                    task = asyncio.create_task(self._ask(producer, query))
                    waiting.add(task)
                    task.add_done_callback(waiting.discard)
                del queries[:handful]
                await asyncio.sleep(TICK)
            if waiting:
                await asyncio.gather(*waiting)

    def _query(self, number: int) -> dict[str, Any]:
        """Most are one of a kind; some were asked before, some belong to a conversation, some are
        streamed."""
        rng = self._rng
        text = rng.choice(QUESTIONS)
        query: dict[str, Any] = {"query_id": f"q{number:05}", "text": text, **self.fields}
        if rng.random() < 0.9:
            query["text"] = f"{text} (case {number})"
        if rng.random() < 0.2:
            query["conversation_id"] = f"c{rng.randrange(CONVERSATIONS)}"
        if rng.random() < 0.1:
            query["stream"] = True
        return query

    async def _ask(self, producer: AIOKafkaProducer, query: dict[str, Any]) -> None:
        while True:
            try:
                await producer.send_and_wait(self._site.topics.queries, orjson.dumps(query))
            except KafkaError:
                await asyncio.sleep(0.5)
            else:
                self.asked[query["query_id"]] = time.time()
                return
