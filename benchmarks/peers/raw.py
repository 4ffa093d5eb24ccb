"""Plain aiokafka: the floor.

At least once with manual commits of batches, as aiokafka's documentation has it in "Consumer
client", section "Manual vs automatic committing" (docs/consumer.rst): ``getmany``, process, commit
the batch's offsets. A batch is processed when the broker has confirmed every output.
"""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.peers.common import Hop, order, quiet, termination


async def forward(hop: Hop, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer) -> None:
    while True:
        batches = await consumer.getmany(timeout_ms=1000)
        if not batches:
            continue
        confirmations = [
            await producer.send(
                hop.target, message.value, key=message.key, headers=list(message.headers)
            )
            for messages in batches.values()
            for message in messages
        ]
        await asyncio.gather(*confirmations)
        await consumer.commit({tp: messages[-1].offset + 1 for tp, messages in batches.items()})


async def main() -> None:
    quiet()
    stop, given = termination(), order()
    consumers = [
        AIOKafkaConsumer(
            hop.source,
            bootstrap_servers=given.kafka,
            group_id=hop.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        for hop in given.hops()
    ]
    producer = AIOKafkaProducer(bootstrap_servers=given.kafka, acks="all", enable_idempotence=True)
    await asyncio.gather(producer.start(), *(consumer.start() for consumer in consumers))
    hops = [
        asyncio.create_task(forward(hop, consumer, producer))
        for hop, consumer in zip(given.hops(), consumers, strict=True)
    ]
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, *hops], return_when=asyncio.FIRST_COMPLETED)
    for hop in hops:
        hop.cancel()
    await asyncio.gather(*hops, return_exceptions=True)
    await asyncio.gather(*(consumer.stop() for consumer in consumers))
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(main())
