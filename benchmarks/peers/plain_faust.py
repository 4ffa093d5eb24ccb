"""Plain Faust: an app with an agent a hop.

At least once as Faust's user guide has it in "Streams", section "Acknowledgment"
(docs/userguide/streams.rst): an event is acknowledged when the agent goes on to the next one, so
each agent (concurrency 1, the default) awaits the delivery of its output first. That is what the
awaitable which ``Topic.send`` returns is for; awaiting ``send`` itself only enqueues.
"""

from __future__ import annotations

import tempfile
from typing import Any

import faust

from benchmarks.peers.common import PARTITIONS, Hop, order, quiet


def build(datadir: str) -> faust.App:
    given = order()
    app = faust.App(
        f"{given.prefix}.faust",
        broker=f"aiokafka://{given.kafka}",
        value_serializer="raw",
        key_serializer="raw",
        producer_acks=-1,
        topic_partitions=PARTITIONS,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        datadir=datadir,
    )
    for hop in given.hops():
        add_agent(app, hop)
    return app


def add_agent(app: faust.App, hop: Hop) -> None:
    target = app.topic(hop.target, key_serializer="raw", value_serializer="raw")

    async def forward(stream: Any) -> None:
        async for event in stream.events():
            delivery = await target.send(key=event.key, value=event.value, headers=event.headers)
            await delivery

    source = app.topic(hop.source, key_type=bytes, value_type=bytes)
    app.agent(source, name=f"agent.{hop.group}")(forward)


def main() -> None:
    quiet()
    with tempfile.TemporaryDirectory() as datadir:
        app = build(datadir)
        app.finalize()
        worker = faust.Worker(app, loglevel="WARNING", override_logging=False)
        worker.execute_from_commandline()


if __name__ == "__main__":
    main()
