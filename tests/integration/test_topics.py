"""Topics and consumer groups on a real broker."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from ragstream.adapters.kafka import KafkaConnection, KafkaPublisher
from ragstream.adapters.kafka_admin import Applied, TopicAdmin
from ragstream.devstack.state import Endpoints
from ragstream.domain.declarations import TopicDeclaration, declare, groups
from ragstream.domain.errors import ConfigurationError, DependencyUnavailable
from ragstream.domain.records import OutboundRecord
from ragstream.domain.topics import Topics

pytestmark = pytest.mark.integration


@pytest.fixture
def connection(stack: Endpoints) -> KafkaConnection:
    if stack.kafka is None:
        pytest.skip(f"no broker: {stack.reason}")
    return KafkaConnection(stack.kafka)


@pytest.fixture
def topics() -> Topics:
    """A prefix that no other test has."""
    return Topics(f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def declared(topics: Topics) -> tuple[TopicDeclaration, ...]:
    return declare(topics, "development", partitions=2)


@pytest.fixture
async def admin(connection: KafkaConnection) -> AsyncIterator[TopicAdmin]:
    async with TopicAdmin(connection) as opened:
        yield opened


async def publish(connection: KafkaConnection, topic: str, *partitions: int) -> None:
    publisher = KafkaPublisher(connection)
    try:
        await publisher.publish(
            [OutboundRecord(topic, None, b"{}", partition=one) for one in partitions]
        )
    finally:
        await publisher.aclose()


async def test_creates_what_is_missing(
    admin: TopicAdmin, declared: tuple[TopicDeclaration, ...]
) -> None:
    names = [topic.name for topic in declared]
    assert await admin.check(declared) == [f"{name}: is missing" for name in names]
    assert await admin.apply(declared) == Applied(created=tuple(names), problems=())
    assert await admin.check(declared) == []
    assert await admin.apply(declared) == Applied(created=(), problems=())


async def test_tells_what_differs_and_leaves_it(
    admin: TopicAdmin, declared: tuple[TopicDeclaration, ...]
) -> None:
    first, *others = declared
    await admin.apply([first])
    wanted = [replace(first, partitions=3, retention_ms=1000), *others]
    applied = await admin.apply(wanted)
    expected = (
        f"{first.name}: partitions is 2, not 3",
        f"{first.name}: retention.ms is {first.retention_ms}, not 1000",
    )
    assert applied == Applied(created=tuple(topic.name for topic in others), problems=expected)
    assert await admin.check(wanted) == list(expected)
    assert await admin.check(declared) == []


async def test_tells_what_the_broker_refuses(
    admin: TopicAdmin, declared: tuple[TopicDeclaration, ...]
) -> None:
    wanted = [replace(topic, replication=7) for topic in declared[:2]]
    with pytest.raises(ConfigurationError) as caught:
        await admin.apply(wanted)
    assert all(topic.name in str(caught.value) for topic in wanted)


async def test_groups_start_at_the_first_record(
    admin: TopicAdmin,
    connection: KafkaConnection,
    topics: Topics,
    declared: tuple[TopicDeclaration, ...],
) -> None:
    await admin.apply(declared)
    await publish(connection, topics.queries, 0, 0, 1)
    stages = ("route", "retrieve", "rerank", "answer", "ingest", "history")
    names = {topics.group(stage) for stage in stages}
    assert await admin.uninitialised_groups(groups(declared)) == dict.fromkeys(names, (0, 1))
    started = {one.group: one for one in await admin.initialise_groups(groups(declared))}
    assert started.keys() == names
    assert started[topics.group("route")].records == 3
    assert await admin.uninitialised_groups(groups(declared)) == {}
    assert await admin.lag(topics.group("route"), topics.queries) == {0: 2, 1: 1}
    assert await admin.initialise_groups(groups(declared)) == []


async def test_groups_may_start_at_the_end(
    admin: TopicAdmin,
    connection: KafkaConnection,
    topics: Topics,
    declared: tuple[TopicDeclaration, ...],
) -> None:
    await admin.apply(declared)
    await publish(connection, topics.queries, 0, 0, 1)
    await admin.initialise_groups(groups(declared), latest=True)
    await publish(connection, topics.queries, 1)
    assert await admin.lag(topics.group("route"), topics.queries) == {0: 0, 1: 1}


async def test_groups_of_topics_that_are_not_as_declared(
    admin: TopicAdmin, topics: Topics, declared: tuple[TopicDeclaration, ...]
) -> None:
    await admin.apply(declared)
    wider = declare(topics, "development", partitions=5)
    assert len(await admin.initialise_groups(groups(wider))) == 6
    assert await admin.uninitialised_groups(groups(wider)) == {}


async def test_a_group_with_some_offsets_is_left_alone(
    admin: TopicAdmin, topics: Topics, declared: tuple[TopicDeclaration, ...]
) -> None:
    """Offsets that expired must not make a worker answer everything again."""
    wide = declare(topics, "development", partitions=3)
    await admin.apply(wide)
    # As if the topic had had two partitions when the group was initialised.
    async with admin._consumer(topics.group("route")) as consumer:
        consumer.assign([TopicPartition(topics.queries, 0)])
        await consumer.commit({TopicPartition(topics.queries, 0): 0})
    started = await admin.initialise_groups(groups(wide))
    assert topics.group("route") not in {one.group for one in started}
    assert await admin.uninitialised_groups(groups(wide)) == {topics.group("route"): (1, 2)}


async def test_a_group_in_use_is_refused(
    admin: TopicAdmin,
    connection: KafkaConnection,
    topics: Topics,
    declared: tuple[TopicDeclaration, ...],
) -> None:
    await admin.apply(declared)
    worker = AIOKafkaConsumer(
        topics.queries,
        **connection.options(),
        group_id=topics.group("route"),
        enable_auto_commit=False,
    )
    await worker.start()
    try:
        with pytest.raises(ConfigurationError, match="in use"):
            await admin.initialise_groups(groups(declared))
    finally:
        await worker.stop()


async def test_topics_that_do_not_exist(admin: TopicAdmin, topics: Topics) -> None:
    with pytest.raises(ConfigurationError, match="no such topic"):
        await admin.lag(topics.group("route"), topics.queries)
    assert topics.queries not in await admin.existing()


async def test_no_broker() -> None:
    with pytest.raises(DependencyUnavailable):
        async with TopicAdmin(KafkaConnection("127.0.0.1:1", request_timeout=1)):
            pass
