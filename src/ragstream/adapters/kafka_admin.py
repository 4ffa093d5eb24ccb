"""Creating and checking topics, and where consumer groups start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    CommitFailedError,
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    InvalidReplicationFactorError,
    KafkaError,
    LeaderNotAvailableError,
    NotCoordinatorForGroupError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from ragstream.adapters.kafka import KafkaConnection, unavailable
from ragstream.domain.declarations import TopicDeclaration
from ragstream.domain.errors import ConfigurationError

__all__ = ["Applied", "GroupStart", "TopicAdmin"]

_NOT_ALLOWED = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
_COORDINATOR_COMES = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)


@dataclass(frozen=True, slots=True)
class Applied:
    """Topics that were created, and what is not as declared and was left alone."""

    created: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupStart:
    """A group that was given its first offsets; ``records`` lie between them and the ends."""

    group: str
    topic: str
    records: int


class TopicAdmin:
    """Administration of our topics. Creates; never deletes, shrinks or reconfigures.

        async with TopicAdmin(connection) as admin:
            await admin.apply(declare())

    Methods raise ``DependencyUnavailable``, and ``ConfigurationError`` for what the cluster
    refuses.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._client = AIOKafkaAdminClient(**connection.options())

    async def __aenter__(self) -> Self:
        try:
            async with self._translated():
                await self._client.start()
        except BaseException:
            await self._client.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def apply(self, declared: Sequence[TopicDeclaration]) -> Applied:
        """Create the topics that are missing, and tell what differs in those that are there.

        Raises ``ConfigurationError`` that lists every topic which could not be created.
        """
        existing = set(await self.existing())
        missing = [topic for topic in declared if topic.name not in existing]
        async with self._translated():
            response = await self._client.create_topics(
                [
                    NewTopic(
                        topic.name,
                        topic.partitions,
                        topic.replication,
                        topic_configs=topic.config(),
                    )
                    for topic in missing
                ]
            )
        if refused := _refused(response.topic_errors):
            raise ConfigurationError("\n".join(refused))
        await self._until_served([topic.name for topic in missing])
        there = [topic for topic in declared if topic.name in existing]
        return Applied(
            created=tuple(topic.name for topic in missing),
            problems=tuple(await self._differences(there)),
        )

    async def check(self, declared: Sequence[TopicDeclaration]) -> list[str]:
        """What is missing or not as declared."""
        existing = set(await self.existing())
        missing = [topic.name for topic in declared if topic.name not in existing]
        there = [topic for topic in declared if topic.name in existing]
        return [f"{name}: is missing" for name in missing] + await self._differences(there)

    async def initialise_groups(
        self,
        groups: Mapping[str, str],
        *,
        latest: bool = False,
    ) -> list[GroupStart]:
        """Give groups their first offsets in the topic of each, where a group has none at all:
        those of the first records, or of the next ones.

        So a worker never has to guess where to start. Partitions that lack offsets in a group
        that has others are left alone; ``uninitialised_groups`` tells them. Raises
        ``ConfigurationError`` when a worker is running in a group.
        """
        started = []
        for group, topic in groups.items():
            committed = await self._committed(group, topic)
            if any(offset is not None for offset in committed.values()):
                continue
            partitions = [TopicPartition(topic, number) for number in committed]
            async with self._consumer(group) as consumer, self._translated():
                first = await consumer.beginning_offsets(partitions)
                last = await consumer.end_offsets(partitions)
                offsets = last if latest else first
                consumer.assign(partitions)
                try:
                    await consumer.commit(offsets)
                except CommitFailedError:
                    raise ConfigurationError(
                        f"group {group} is in use: stop its workers first"
                    ) from None
            records = sum(last[one] - offsets[one] for one in partitions)
            started.append(GroupStart(group, topic, records))
        return started

    async def uninitialised_groups(self, groups: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
        """Partitions of each group's topic without a committed offset, by group; groups that have
        all are left out.

        Raises ``ConfigurationError`` for topics that do not exist.
        """
        found = {}
        for group, topic in groups.items():
            committed = await self._committed(group, topic)
            lacking = tuple(number for number, offset in committed.items() if offset is None)
            if lacking:
                found[group] = lacking
        return found

    async def lag(self, group: str, topic: str) -> dict[int, int]:
        """Records between the group's offset and the end, by partition. Without an offset it is
        all that is there."""
        committed = await self._committed(group, topic)
        partitions = [TopicPartition(topic, number) for number in committed]
        async with self._consumer(None) as consumer, self._translated():
            first = await consumer.beginning_offsets(partitions)
            last = await consumer.end_offsets(partitions)
        lag = {}
        for one in partitions:
            offset = committed[one.partition]
            lag[one.partition] = last[one] - max(first[one], offset or 0)
        return lag

    async def members(self, groups: Iterable[str]) -> dict[str, int]:
        """How many consumers each group has at present."""
        found = {}
        for group in groups:
            async with self._translated():
                (response,) = await self._client.describe_consumer_groups([group])
            # The last list of the group's description, in every version of the protocol.
            lists = [part for part in response.groups[0] if isinstance(part, list)]
            found[group] = len(lists[-1]) if lists else 0
        return found

    async def _committed(self, group: str, topic: str) -> dict[int, int | None]:
        """Committed offset of each partition of a topic, or None."""
        (described,) = await self._described([topic])
        partitions = [TopicPartition(topic, one["partition"]) for one in described["partitions"]]
        async with self._translated():
            # A cluster that never had a group makes the topic of offsets now.
            async for attempt in self._retrying(*_COORDINATOR_COMES):
                with attempt:
                    offsets = await self._client.list_consumer_group_offsets(
                        group, partitions=partitions
                    )
        found: dict[int, int | None] = {}
        for one in sorted(partitions):
            offset = offsets[one].offset if one in offsets else -1
            found[one.partition] = offset if offset >= 0 else None
        return found

    async def _until_served(self, names: Sequence[str]) -> None:
        """Return when every partition of new topics has a leader that brokers know of."""
        async with self._translated():
            async for attempt in self._retrying(LeaderNotAvailableError):
                with attempt:
                    described = {one["topic"]: one for one in await self._client.describe_topics()}
                    for name in names:
                        partitions = described.get(name, {}).get("partitions", ())
                        if not partitions or any(one["leader"] < 0 for one in partitions):
                            raise LeaderNotAvailableError(name)

    def _retrying(self, *errors: type[KafkaError]) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception_type(errors),
            stop=stop_after_delay(self._connection.request_timeout),
            wait=wait_fixed(0.1),
            reraise=True,
        )

    async def existing(self) -> Collection[str]:
        """Names of all topics of the cluster, other people's included."""
        async with self._translated():
            names: list[str] = await self._client.list_topics()
        return names

    async def _described(self, names: Sequence[str]) -> list[Any]:
        """Metadata of topics that exist: asking for one that does not may create it."""
        if absent := sorted(set(names) - set(await self.existing())):
            raise ConfigurationError(
                f"no such topic: {', '.join(absent)} (create them with `ragstream topics apply`)"
            )
        async with self._translated():
            found: list[Any] = await self._client.describe_topics(list(names))
        return found

    async def _differences(self, declared: Sequence[TopicDeclaration]) -> list[str]:
        if not declared:
            return []
        metadata = {one["topic"]: one for one in await self._described([t.name for t in declared])}
        configs = await self._configs([topic.name for topic in declared])
        problems = []
        for topic in declared:
            partitions = metadata[topic.name]["partitions"]
            replicas = min((len(one["replicas"]) for one in partitions), default=0)
            actual = {"partitions": str(len(partitions)), "replication": str(replicas)}
            wanted = {
                "partitions": str(topic.partitions),
                "replication": str(topic.replication),
                **topic.config(),
            }
            actual |= configs.get(topic.name, {})
            problems += [
                f"{topic.name}: {name} is {actual.get(name)}, not {value}"
                for name, value in wanted.items()
                if actual.get(name) != value
            ]
        return problems

    async def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        async with self._translated():
            responses = await self._client.describe_configs(resources)
        found: dict[str, dict[str, str]] = {}
        for response in responses:
            for code, message, _, name, entries in response.resources:
                if code:
                    raise ConfigurationError(f"{name}: {message or for_code(code).__name__}")
                found[name] = {entry[0]: entry[1] for entry in entries}
        return found

    @asynccontextmanager
    async def _consumer(self, group: str | None) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            **self._connection.options(), group_id=group, enable_auto_commit=False
        )
        try:
            async with self._translated():
                await consumer.start()
            yield consumer
        finally:
            await consumer.stop()

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Kafka's errors as ours."""
        try:
            yield
        except _NOT_ALLOWED as error:
            raise ConfigurationError(f"kafka: not allowed: {error}") from error
        except (KafkaError, OSError, TimeoutError) as error:
            raise unavailable(self._connection, error) from error


def _refused(errors: Iterable[tuple[str, int, str | None]]) -> list[str]:
    """Why which topics could not be created: a line for each reason."""
    topics: dict[str, list[str]] = {}
    for name, code, message in errors:
        if code not in (0, TopicAlreadyExistsError.errno):
            reason = message or for_code(code).__name__
            if code == InvalidReplicationFactorError.errno:
                reason += " (RAGSTREAM_KAFKA__REPLICATION)"
            topics.setdefault(reason, []).append(name)
    return [f"could not create {', '.join(names)}: {why}" for why, names in topics.items()]
