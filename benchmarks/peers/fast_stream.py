"""FastStream on aiokafka.

At least once as its documentation has it: "Consuming Acknowledgements" (docs/en/kafka/ack.md) says
to set a group and commit after the handler; "Basic Subscriber", section "Concurrent processing"
(docs/en/kafka/Subscriber/index.md) says that ``NACK_ON_ERROR`` with ``max_workers`` equal to the
number of partitions is the most concurrency that is reliable. Publishing waits for the broker's
confirmation, the default. Bodies are left as bytes by a custom decoder ("Custom Decoder",
docs/en/getting-started/serialization/decoder.md), so that they are neither parsed nor validated.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage
from faststream.message import StreamMessage

from benchmarks.peers.common import PARTITIONS, Hop, order, quiet


async def as_bytes(message: StreamMessage[Any]) -> bytes:
    return message.body


def add_hop(broker: KafkaBroker, hop: Hop, workers: int) -> None:
    publisher = broker.publisher(hop.target)

    @broker.subscriber(
        hop.source,
        group_id=hop.group,
        ack_policy=AckPolicy.NACK_ON_ERROR,
        auto_offset_reset="earliest",
        max_workers=workers,
        decoder=as_bytes,
    )
    async def forward(body: bytes, message: KafkaMessage) -> None:
        headers = {name: value for name, value in message.headers.items() if isinstance(value, str)}
        await publisher.publish(body, key=message.raw_message.key, headers=headers)


async def main() -> None:
    quiet()
    given = order()
    workers = int(given.extra.get("workers", PARTITIONS))
    broker = KafkaBroker(given.kafka, acks="all", enable_idempotence=True, logger=None)
    for hop in given.hops():
        add_hop(broker, hop, workers)
    await FastStream(broker, logger=None).run(log_level=logging.WARNING)


if __name__ == "__main__":
    asyncio.run(main())
