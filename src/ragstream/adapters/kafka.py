"""Kafka through aiokafka: publishing with confirmation, and following topics.

Consuming for the stages is Faust's (``ragstream.worker``); this is everything else.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    ConsumerStoppedError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from ragstream.adapters import kafka_records
from ragstream.domain.errors import ConfigurationError, DependencyUnavailable, PermanentError
from ragstream.domain.events import AnswerDelta, Query
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.wire import encode_delta

__all__ = [
    "KafkaBus",
    "KafkaConnection",
    "KafkaDeltas",
    "KafkaPublisher",
    "inbound",
    "partitions_of",
    "unavailable",
]

log = logging.getLogger(__name__)
kafka_records.install()

_REFUSED = (MessageSizeTooLargeError, RecordTooLargeError, TopicAuthorizationFailedError)

#: Of records that wait for the broker together; below what a topic takes. With aiokafka's 16 KiB
#: all but a dozen handlers wait for room, and all of them wake when there is some.
BATCH_BYTES = 512 * 1024


@dataclass(frozen=True)
class KafkaConnection:
    """How to reach the cluster. Everything that opens a connection takes this."""

    bootstrap_servers: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    client_id: str = "ragstream"
    request_timeout: float = 10.0

    def options(self) -> dict[str, Any]:
        """Keyword arguments that every aiokafka client takes."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.client_id,
            "request_timeout_ms": int(self.request_timeout * 1000),
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        if (context := self.ssl_context()) is not None:
            options["ssl_context"] = context
        return options

    def ssl_context(self) -> ssl.SSLContext | None:
        """Raises ``ConfigurationError`` when the certificate authorities can't be read."""
        if not self.security_protocol.endswith("SSL"):
            return None
        try:
            return ssl.create_default_context(cafile=self.ssl_cafile)
        except OSError as error:  # SSLError is one
            raise ConfigurationError(
                f"RAGSTREAM_KAFKA__SSL_CAFILE: {self.ssl_cafile} is no PEM file of certificate "
                f"authorities ({error.strerror or error})"
            ) from None


def unavailable(connection: KafkaConnection, error: BaseException) -> DependencyUnavailable:
    """A client's error as ours. One that found no broker at all names the addresses as they were
    given."""
    reason = _describe(error)
    if isinstance(error, KafkaConnectionError) and "Unable to bootstrap" in reason:
        reason = f"can't reach {connection.bootstrap_servers}"
    return DependencyUnavailable("kafka", reason)


class KafkaPublisher:
    """One idempotent producer with acks=all, for all stages of a process.

    aiokafka's producer retries without end, so the wait for confirmation is bounded; when it
    runs out the producer is replaced, as nothing tells what became of what it still holds.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        timeout: float = 30.0,
        max_bytes: int = 4 * 1024 * 1024,
        compression: str | None = None,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._compression = compression
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()
        self._discarded: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect. Raises ``DependencyUnavailable``."""
        await self._ready()

    async def aclose(self) -> None:
        if self._producer is not None:
            await self._discard(self._producer)
            self._producer = None
        if self._discarded:
            await asyncio.wait(self._discarded, timeout=5)

    async def publish(self, records: Sequence[OutboundRecord]) -> None:
        producer = await self._ready()
        try:
            async with asyncio.timeout(self._timeout):
                confirmations = [
                    await producer.send(
                        record.topic,
                        record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition,
                    )
                    for record in records
                ]
                if len(confirmations) == 1:
                    await confirmations[0]
                else:
                    await asyncio.gather(*confirmations)
        except TimeoutError:
            self._replace(producer)
            raise DependencyUnavailable(
                "kafka", f"no confirmation within {self._timeout:g} s"
            ) from None
        except _REFUSED as error:
            raise PermanentError(f"kafka refuses the record: {error}") from error
        except UnknownTopicOrPartitionError as error:
            raise DependencyUnavailable(
                "kafka", f"unknown topic among {sorted({r.topic for r in records})}"
            ) from error
        except KafkaError as error:
            self._replace(producer)
            raise unavailable(self._connection, error) from error

    async def send_soon(self, record: OutboundRecord) -> None:
        """Hand a record to the producer without waiting for its confirmation."""
        producer = await self._ready()
        confirmation = await producer.send(
            record.topic, record.value, key=record.key, headers=list(record.headers)
        )
        confirmation.add_done_callback(_look_at)

    async def _ready(self) -> AIOKafkaProducer:
        if (producer := self._producer) is not None:
            return producer
        async with self._starting:
            if self._producer is None:
                producer = AIOKafkaProducer(
                    **self._connection.options(),
                    acks="all",
                    enable_idempotence=True,
                    max_request_size=self._max_bytes,
                    max_batch_size=BATCH_BYTES,
                    compression_type=self._compression,
                )
                try:
                    async with asyncio.timeout(self._timeout):
                        await producer.start()
                except (KafkaError, TimeoutError, OSError) as error:
                    await self._discard(producer)
                    raise unavailable(self._connection, error) from error
                except BaseException:  # cancelled
                    await self._discard(producer)
                    raise
                self._producer = producer
            return self._producer

    def _replace(self, producer: AIOKafkaProducer) -> None:
        if self._producer is producer:
            self._producer = None
            task = asyncio.create_task(self._discard(producer))
            self._discarded.add(task)
            task.add_done_callback(self._discarded.discard)

    async def _discard(self, producer: AIOKafkaProducer) -> None:
        try:
            async with asyncio.timeout(2):
                await producer.stop()
        except (KafkaError, TimeoutError, OSError) as error:
            log.info("the old producer did not stop cleanly: %s", _describe(error))


class KafkaDeltas:
    """Publishes answer deltas without waiting for them."""

    def __init__(self, publisher: KafkaPublisher, topic: str) -> None:
        self._publisher = publisher
        self._topic = topic
        self._sending: set[asyncio.Task[None]] = set()
        self.lost = 0

    def emit(self, query: Query, delta: AnswerDelta) -> None:
        task = asyncio.get_running_loop().create_task(self._send(query, delta))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, query: Query, delta: AnswerDelta) -> None:
        try:
            async with asyncio.timeout(2):
                await self._publisher.send_soon(encode_delta(query, delta, self._topic))
        except (DependencyUnavailable, KafkaError, TimeoutError) as error:
            self.lost += 1
            log.debug("lost a delta of %s: %s", query.query_id, error)


class KafkaBus:
    """Publishing and following topics, for clients of the pipeline."""

    def __init__(self, connection: KafkaConnection, *, timeout: float = 30.0) -> None:
        self._connection = connection
        self._publisher = KafkaPublisher(connection, timeout=timeout)

    async def aclose(self) -> None:
        await self._publisher.aclose()

    async def publish(self, records: Sequence[OutboundRecord]) -> None:
        await self._publisher.publish(records)

    @asynccontextmanager
    async def tail(self, topics: Sequence[str]) -> AsyncIterator[AsyncIterator[InboundRecord]]:
        """Follow all partitions from their present end, outside any group."""
        consumer = AIOKafkaConsumer(
            **self._connection.options(),
            enable_auto_commit=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=250,
        )
        try:
            try:
                await consumer.start()
                partitions = await partitions_of(consumer, topics)
                consumer.assign(partitions)
                await consumer.seek_to_end(*partitions)
                for partition in partitions:  # fixes "now"
                    await consumer.position(partition)
            except (KafkaError, OSError) as error:
                raise unavailable(self._connection, error) from error
            yield _records(consumer)
        finally:
            await consumer.stop()


async def partitions_of(consumer: AIOKafkaConsumer, topics: Sequence[str]) -> list[TopicPartition]:
    """Every partition of topics; raises ``ConfigurationError`` for those that do not exist."""
    # aiokafka fetches metadata of topics it is told of, and only by subscription in public.
    consumer._client.set_topics(topics)
    await consumer._client.force_metadata_update()
    known = {topic: consumer.partitions_for_topic(topic) or set() for topic in topics}
    if missing := sorted(topic for topic, partitions in known.items() if not partitions):
        raise ConfigurationError(
            f"no such topic: {', '.join(missing)} (create them with `ragstream topics apply`)"
        )
    return [TopicPartition(topic, number) for topic in topics for number in sorted(known[topic])]


async def _records(consumer: AIOKafkaConsumer) -> AsyncIterator[InboundRecord]:
    while True:
        try:
            batches = await consumer.getmany(timeout_ms=1000)
        except ConsumerStoppedError:  # by us: whoever follows it comes to the end
            return
        for messages in batches.values():
            for message in messages:
                yield inbound(message)


def inbound(message: Any) -> InboundRecord:
    """A record as aiokafka read it, as ours."""
    return InboundRecord(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp / 1000,
        message.key,
        message.value,
        tuple(message.headers),
    )


def _look_at(confirmation: asyncio.Future[Any]) -> None:
    if not confirmation.cancelled():
        confirmation.exception()


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
