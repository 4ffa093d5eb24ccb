"""Copies of answers to the topics that their queries name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ragstream.adapters.kafka import KafkaConnection, KafkaPublisher
from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.domain.errors import DependencyUnavailable, PermanentError
from ragstream.domain.records import OutboundRecord

__all__ = ["KafkaReplies"]

#: Seconds for which it is believed that a topic exists, or does not.
REMEMBERED = 30.0


class KafkaReplies:
    """A publisher with a producer and a time limit of its own, so that a topic in trouble holds up
    no answer. It never makes a topic: a producer that is told to send to one which does not exist
    would, on brokers that allow it.

    ``timeout``: seconds for everything together.
    """

    def __init__(self, connection: KafkaConnection, *, timeout: float = 5.0) -> None:
        self._connection = connection
        self._publisher = KafkaPublisher(connection, timeout=timeout)
        self._timeout = timeout
        self._topics: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()

    async def publish(self, records: Sequence[OutboundRecord]) -> None:
        """Raises ``PermanentError`` for topics that do not exist."""
        try:
            async with asyncio.timeout(self._timeout):
                known = await self._known()
                if missing := sorted({record.topic for record in records} - known):
                    raise PermanentError(f"no such topic: {', '.join(missing)}")
                await self._publisher.publish(records)
        except TimeoutError:
            raise DependencyUnavailable("kafka", f"no answer in {self._timeout:g} s") from None

    async def aclose(self) -> None:
        await self._publisher.aclose()

    async def _known(self) -> frozenset[str]:
        async with self._asking:
            if time.monotonic() - self._asked_at > REMEMBERED:
                async with TopicAdmin(self._connection) as admin:
                    self._topics = frozenset(await admin.existing())
                self._asked_at = time.monotonic()
            return self._topics
