"""Quix Streams, on librdkafka.

At least once is its default guarantee: "Configuring Quix Streams Applications", section
"Processing Guarantees" (docs/configuration.md). A checkpoint flushes the producer, verifies every
delivery and commits the offsets, every five seconds as "Checkpointing" has it
(docs/advanced/checkpointing.md). Outputs leave before that, which keeps its latency low.
"""

from __future__ import annotations

import tempfile

from quixstreams import Application

from benchmarks.peers.common import order, quiet


def main() -> None:
    quiet()
    given = order()
    with tempfile.TemporaryDirectory() as state:
        app = Application(
            broker_address=given.kafka,
            consumer_group=f"{given.prefix}.quix",
            auto_offset_reset="earliest",
            processing_guarantee="at-least-once",
            auto_create_topics=False,
            state_dir=state,
            loglevel="WARNING",
        )
        for hop in given.hops():
            bytes_only = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
            source = app.topic(hop.source, **bytes_only)
            target = app.topic(hop.target, key_serializer="bytes", value_serializer="bytes")
            app.dataframe(source).to_topic(target)
        app.run()


if __name__ == "__main__":
    main()
