"""Publishing, with a broker of our own that stops answering."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from ragstream.adapters.kafka import KafkaConnection, KafkaPublisher
from ragstream.adapters.kafka_replies import KafkaReplies
from ragstream.devstack import jars, kafka
from ragstream.devstack.ports import choose_ports
from ragstream.devstack.process import Server
from ragstream.devstack.state import Endpoints
from ragstream.domain.errors import DependencyUnavailable, PermanentError
from ragstream.domain.records import OutboundRecord

pytestmark = pytest.mark.integration


@pytest.fixture
async def broker(stack: Endpoints, tmp_path: Path) -> AsyncIterator[Server]:
    if stack.kafka is None:
        pytest.skip(f"no broker: {stack.reason}")
    ports = choose_ports(("kafka", "controller"), {}, {})
    server = await kafka.start(
        tmp_path,
        tmp_path / "kafka.log",
        jars.cache_folder(),
        port=ports["kafka"],
        controller_port=ports["controller"],
        report=print,
    )
    try:
        async with asyncio.timeout(60):
            while not await kafka.ready(server.port):
                await asyncio.sleep(0.2)
        yield server
    finally:
        os.kill(server.pid, signal.SIGCONT)
        await server.stop()


async def test_the_wait_for_a_confirmation_is_bounded(broker: Server) -> None:
    connection = KafkaConnection(f"127.0.0.1:{broker.port}", request_timeout=2)
    admin = AIOKafkaAdminClient(**connection.options())
    await admin.start()
    await admin.create_topics([NewTopic("t", 1, 1)])
    await admin.close()
    publisher = KafkaPublisher(connection, timeout=3)
    try:
        await publisher.publish([OutboundRecord("t", None, b"before")])
        os.kill(broker.pid, signal.SIGSTOP)
        with pytest.raises(DependencyUnavailable, match="no confirmation within 3 s"):
            await publisher.publish([OutboundRecord("t", None, b"amid")])
        os.kill(broker.pid, signal.SIGCONT)
        # Whatever became of it: a new producer goes on at once.
        await publisher.publish([OutboundRecord("t", None, b"after")])
    finally:
        await publisher.aclose()
    consumer = AIOKafkaConsumer(
        "t", **connection.options(), auto_offset_reset="earliest", enable_auto_commit=False
    )
    async with consumer:
        values = []
        while b"after" not in values:
            values.append((await consumer.getone()).value)
    assert values[0] == b"before"
    assert values.count(b"after") == 1


async def test_replies_go_to_topics_that_exist_only(stack: Endpoints) -> None:
    if stack.kafka is None:
        pytest.skip(f"no broker: {stack.reason}")
    replies = KafkaReplies(KafkaConnection(stack.kafka))
    try:
        with pytest.raises(PermanentError, match="no such topic: nobody-has-this"):
            await replies.publish([OutboundRecord("nobody-has-this", b"k", b"v")])
    finally:
        await replies.aclose()
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    assert "nobody-has-this" not in await admin.list_topics()
    await admin.close()
