"""Reading what topics hold, from a time to now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from ragstream.adapters.kafka import KafkaConnection, inbound, partitions_of, unavailable
from ragstream.domain.records import InboundRecord

__all__ = ["read_log", "read_one"]


async def read_log(
    connection: KafkaConnection,
    topics: Sequence[str],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> AsyncIterator[InboundRecord]:
    """Every record of topics that was there when this began, partition by partition; those of a
    time span by the broker's timestamps, ``since`` included and ``until`` not.

    Raises ``ConfigurationError`` for topics that do not exist, ``DependencyUnavailable``.
    """
    async with _reader(connection) as consumer:
        partitions = await partitions_of(consumer, topics)
        begin = await _begin(consumer, partitions, since)
        end = await consumer.end_offsets(partitions)
        left = [one for one in partitions if begin[one] < end[one]]
        consumer.assign(left)
        for one in left:
            consumer.seek(one, begin[one])
        while left:
            for messages in (await consumer.getmany(*left, timeout_ms=1000)).values():
                for message in messages:
                    place = TopicPartition(message.topic, message.partition)
                    record = inbound(message)
                    if message.offset < end[place] and (
                        until is None or record.timestamp < until.timestamp()
                    ):
                        yield record
            # By position, not by the last offset seen: transactions leave gaps at the end.
            left = [one for one in left if await consumer.position(one) < end[one]]


async def read_one(
    connection: KafkaConnection, topic: str, partition: int, offset: int
) -> InboundRecord | None:
    """The record at a place, or None when there is none (any more)."""
    place = TopicPartition(topic, partition)
    async with _reader(connection) as consumer:
        if place not in await partitions_of(consumer, [topic]):
            return None
        first = (await consumer.beginning_offsets([place]))[place]
        last = (await consumer.end_offsets([place]))[place]
        if not first <= offset < last:
            return None
        consumer.assign([place])
        consumer.seek(place, offset)
        record = inbound(await consumer.getone(place))
        return record if record.offset == offset else None


@asynccontextmanager
async def _reader(connection: KafkaConnection) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer outside any group. Kafka's errors come as ours."""
    consumer = AIOKafkaConsumer(
        **connection.options(), enable_auto_commit=False, isolation_level="read_committed"
    )
    try:
        await consumer.start()
        yield consumer
    except (KafkaError, OSError) as error:
        raise unavailable(connection, error) from error
    finally:
        await consumer.stop()


async def _begin(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition], since: datetime | None
) -> dict[TopicPartition, int]:
    if since is None:
        return dict(await consumer.beginning_offsets(partitions))
    at = int(since.timestamp() * 1000)
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, at))
    end = await consumer.end_offsets(partitions)
    return {one: found[one].offset if found[one] else end[one] for one in partitions}
