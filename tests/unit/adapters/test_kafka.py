"""Following topics and publishing, with consumers and producers that only note what is done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaConnectionError

from ragstream.adapters import kafka, kafka_admin
from ragstream.adapters.kafka import KafkaBus, KafkaConnection, KafkaPublisher
from ragstream.domain.errors import ConfigurationError, DependencyUnavailable

CONNECTION = KafkaConnection("nowhere:9092")


class Client:
    """A consumer or producer. ``start_with``: what its start raises; None: it takes for ever."""

    start_with: BaseException | None = None
    made: list[Client]

    def __init__(self, **_options: Any) -> None:
        self.stopped = False
        self.made.append(self)

    async def start(self) -> None:
        if self.start_with is None:
            await asyncio.Event().wait()
        elif not isinstance(self.start_with, StopIteration):
            raise self.start_with

    async def stop(self) -> None:
        self.stopped = True

    def assign(self, _partitions: object) -> None: ...

    async def seek_to_end(self, *_partitions: object) -> None: ...

    async def position(self, _partition: object) -> int:
        return 0

    async def getmany(self, timeout_ms: int) -> dict[Any, Any]:
        if self.stopped:
            raise ConsumerStoppedError
        await asyncio.sleep(0)
        return {}


STARTS = StopIteration()


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    class Mine(Client):
        made: list[Client] = []  # noqa: RUF012 - of this test
        start_with = STARTS

    monkeypatch.setattr(kafka, "AIOKafkaConsumer", Mine)
    monkeypatch.setattr(kafka, "AIOKafkaProducer", Mine)

    async def partitions_of(_consumer: object, topics: list[str]) -> list[TopicPartition]:
        if "absent" in topics:
            raise ConfigurationError("no such topic: absent")
        return [TopicPartition(topic, 0) for topic in topics]

    monkeypatch.setattr(kafka, "partitions_of", partitions_of)
    return Mine


def test_certificate_authorities_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    for name in ("absent", "text"):
        cafile = str(tmp_path / name)
        connection = KafkaConnection("a:1", security_protocol="SSL", ssl_cafile=cafile)
        with pytest.raises(ConfigurationError, match=f"SSL_CAFILE: {cafile} is no PEM file"):
            connection.options()


def test_a_reason_that_several_topics_share_is_told_once() -> None:
    why = "only 1 broker(s) are registered"
    errors = [("a", 38, why), ("b", 38, why), ("c", 0, None), ("d", 36, None), ("e", 29, None)]
    assert kafka_admin._refused(errors) == [
        f"could not create a, b: {why} (RAGSTREAM_KAFKA__REPLICATION)",
        "could not create e: TopicAuthorizationFailedError",
    ]


def all_stopped(client: type[Client]) -> bool:
    return bool(client.made) and all(one.stopped for one in client.made)


async def test_the_consumer_ends_with_a_topic_that_does_not_exist(client: type[Client]) -> None:
    with pytest.raises(ConfigurationError):
        async with KafkaBus(CONNECTION).tail(["absent"]):
            pass
    assert all_stopped(client)


async def test_the_consumer_ends_where_there_is_no_broker(client: type[Client]) -> None:
    client.start_with = KafkaConnectionError("refused")
    with pytest.raises(DependencyUnavailable):
        async with KafkaBus(CONNECTION).tail(["t"]):
            pass
    assert all_stopped(client)


async def test_clients_end_when_their_start_is_cancelled(client: type[Client]) -> None:
    client.start_with = None
    tail = KafkaBus(CONNECTION).tail(["t"])
    publisher = KafkaPublisher(CONNECTION)
    starting = [asyncio.create_task(tail.__aenter__()), asyncio.create_task(publisher.start())]
    await asyncio.sleep(0)
    for task in starting:
        task.cancel()
    await asyncio.wait(starting)
    assert len(client.made) == 2
    assert all_stopped(client)


async def test_who_follows_a_topic_that_is_closed_comes_to_the_end(client: type[Client]) -> None:
    async with KafkaBus(CONNECTION).tail(["t"]) as records:

        async def follow() -> list[Any]:
            return [record async for record in records]

        following = asyncio.create_task(follow())
        await asyncio.sleep(0)
    assert await following == []
    assert all_stopped(client)
