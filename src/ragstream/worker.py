"""Running stages on Kafka.

Faust is the runtime: one app a stage, with its own consumer group, so that a slow stage
holds up no other. Its per-record path is left out: what its consumer has fetched goes straight to
the dispatcher, which also decides what is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import faust
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import ConsumerStoppedError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from faust.auth import SASLCredentials, SSLCredentials
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from yarl import URL

from ragstream.adapters.kafka import KafkaConnection, inbound
from ragstream.delivery.dispatcher import Dispatcher
from ragstream.domain.errors import ConfigurationError, StageStalled
from ragstream.domain.records import TopicPartition
from ragstream.pipeline import StageUnit

__all__ = ["FaustRunner"]

log = logging.getLogger(__name__)
#: Faust's services log under the module of their class: ours keep to Faust's name and level.
_FAUST_LOG = logging.getLogger("faust.stage")

#: Seconds for the consumers to leave their groups, once everything is drained and committed.
STOP_TIMEOUT = 5.0
#: Seconds to wait for records.
FETCH_TIMEOUT = 1.0
#: Seconds between two tries to seek.
SEEK_INTERVAL = 0.1
#: Seconds to wait for records while some partitions are paused.
PAUSED_FETCH_TIMEOUT = 0.02


class FaustRunner:
    """Stages on Kafka, one Faust app each.

    Seconds: ``drain`` for running records on shutdown and rebalance, ``longest_work`` after which
    a stage that finishes nothing counts as stalled.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        units: Sequence[StageUnit],
        *,
        drain: float = 5.0,
        commit_interval: float = 1.0,
        session_timeout: float = 10.0,
        instance_id: str | None = None,
        longest_work: float = 660.0,
    ) -> None:
        self._longest_work = longest_work
        self._apps = [
            _StageApp.build(
                connection,
                unit,
                drain=drain,
                session_timeout=session_timeout,
                instance_id=instance_id,
                on_fault=self._on_fault,
            )
            for unit in units
        ]
        self._commit_interval = commit_interval
        self._committing: asyncio.Task[None] | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._stopping = False
        self._failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    @property
    def dispatchers(self) -> Mapping[str, Dispatcher]:
        return {app.unit.stage: app.dispatcher for app in self._apps}

    def loops(self) -> dict[str, asyncio.AbstractEventLoop]:
        """Event loops by what runs in them: the stages' own, and each consumer's."""
        consumers = {
            f"the consumer of {app.unit.stage}": app.consumer._thread.thread_loop
            for app in self._apps
        }
        return {"the stages": asyncio.get_running_loop()} | consumers

    def assigned(self) -> dict[str, int]:
        """Partitions that each stage holds at present."""
        return {app.unit.stage: len(app.dispatcher.assigned()) for app in self._apps}

    async def start(self) -> None:
        await asyncio.gather(*(app.start() for app in self._apps))
        self._watching += [asyncio.create_task(self._watch(app)) for app in self._apps]
        self._watching.append(asyncio.create_task(self._watch_progress()))
        self._committing = asyncio.create_task(self._commit_regularly())

    async def stop(self) -> None:
        self._stopping = True
        if self._committing is not None:
            self._committing.cancel()
        await asyncio.gather(*(app.leave() for app in self._apps))
        stopping = [asyncio.create_task(app.stop()) for app in self._apps]
        _, hanging = await asyncio.wait(stopping, timeout=STOP_TIMEOUT)
        if hanging:
            # aiokafka waits for the broker to leave its group. Without a broker there is none to
            # leave: the session timeout does it.
            log.warning("%d consumers did not stop within %g s", len(hanging), STOP_TIMEOUT)
        for task in (*self._watching, *hanging):
            task.cancel()

    async def wait_failed(self) -> BaseException:
        return await asyncio.shield(self._failure)

    def _on_fault(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_result(error)

    async def _watch(self, app: _StageApp) -> None:
        await app.wait_until_stopped()
        if not self._stopping:
            self._on_fault(
                app.crash_reason or ConfigurationError(f"stage {app.unit.stage} stopped by itself")
            )

    async def _watch_progress(self) -> None:
        """A stage that finishes nothing for longer than anything may take is broken. One that
        waits on purpose is not."""
        while True:
            await asyncio.sleep(1)
            for app in self._apps:
                if app.unit.handler.paused:
                    app.dispatcher.note_progress()
                elif app.dispatcher.standstill() > self._longest_work:
                    self._on_fault(
                        StageStalled(
                            f"{app.unit.stage}: no record came to an end within "
                            f"{self._longest_work:g} s"
                        )
                    )

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._commit_interval)
            for app in self._apps:
                await app.commit()


class _StageApp(faust.App):
    """The Faust app of one stage."""

    logger = _FAUST_LOG
    unit: StageUnit
    dispatcher: Dispatcher
    drain_timeout: float

    @classmethod
    def build(
        cls,
        connection: KafkaConnection,
        unit: StageUnit,
        *,
        drain: float,
        session_timeout: float,
        instance_id: str | None,
        on_fault: Any,
    ) -> _StageApp:
        app = cls(
            unit.group,
            broker=[
                URL(f"aiokafka://{server.strip()}")
                for server in connection.bootstrap_servers.split(",")
            ],
            broker_credentials=_credentials(connection),
            broker_client_id=connection.client_id,
            broker_session_timeout=session_timeout,
            broker_heartbeat_interval=min(1.0, session_timeout / 3.3),
            broker_request_timeout=max(90.0, session_timeout + 1),
            broker_max_poll_records=128,
            consumer_max_fetch_size=256 * 1024,  # a larger batch comes all the same, alone
            broker_max_poll_interval=1e6,  # a full window must not look like a dead process
            consumer_group_instance_id=instance_id,
            stream_wait_empty=False,  # the dispatcher drains, within bounds
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,
            web_enabled=False,
            autodiscover=False,
        )
        app.unit = unit
        app.drain_timeout = drain
        app.dispatcher = Dispatcher(
            unit.handler,
            window=unit.window,
            flow=_ConsumerFlow(app),
            on_fault=on_fault,
            certain=app.is_member,
        )
        app.finalize()
        app.transport = _Transport(app.conf.broker_consumer, app)
        app.topics.add(app.topic(unit.topic, acks=False))
        return app

    def _create_directories(self) -> None:
        """None: Faust would make its data folder, in which nothing of ours is kept."""

    def is_member(self) -> bool:
        """Whether the group can't have given our partitions to others: it has heard of us within
        the session timeout."""
        age = time.monotonic() - self.consumer._thread.heard_at
        return bool(age < self.conf.broker_session_timeout)

    async def commit(self) -> None:
        """Commit what may be committed; what fails is committed next time."""
        offsets = self.dispatcher.committable()
        if not offsets:
            return
        committed = await self.consumer._commit(
            {TP(name.topic, name.partition): offset for name, offset in offsets.items()}
        )
        if committed:
            self.dispatcher.confirm(offsets)

    async def leave(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Drain partitions (all by default), commit, and let go of them."""
        names = list(self.dispatcher.assigned() if partitions is None else partitions)
        # What may be somebody else's already is not worked on any more.
        timeout = self.drain_timeout if self.is_member() else 0.0
        await self.dispatcher.drain(names, timeout=timeout)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                await self.commit()
        self.dispatcher.release(names)


class _ConsumerFlow:
    """Pausing and resuming through Faust's consumer."""

    def __init__(self, app: _StageApp) -> None:
        self._app = app

    def pause(self, partition: TopicPartition) -> None:
        self._app.consumer.on_buffer_full(TP(partition.topic, partition.partition))

    def resume(self, partition: TopicPartition) -> None:
        self._app.consumer.on_buffer_drop(TP(partition.topic, partition.partition))


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    logger = _FAUST_LOG
    #: When the last heartbeat that the group took was sent, or we joined; by the monotonic clock.
    heard_at = 0.0

    async def on_start(self) -> None:
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator
        heartbeat = coordinator._do_heartbeat

        async def noted() -> bool:
            sent = time.monotonic()
            taken = bool(await heartbeat())
            if taken:
                self.heard_at = sent
            return taken

        coordinator._do_heartbeat = noted

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust reads uncommitted records unless it runs transactions itself.
        consumer._isolation_level = "read_committed"
        return consumer

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        # Unlike Faust's own: a broker that is away, or a rebalance that came first, must not take
        # the worker down. What is not committed now is committed later, or read again.
        assigned = self.assignment()
        wanted = {
            AiokafkaPartition(tp.topic, tp.partition): OffsetAndMetadata(offset, "")
            for tp, offset in offsets.items()
            if tp in assigned
        }
        try:
            await self._ensure_consumer().commit(wanted)
        except (KafkaError, ConsumerStoppedError) as error:
            log.info("offsets not committed yet: %s", error)
            return False
        return len(wanted) == len(offsets)


class _Consumer(driver.Consumer):
    """Tells the dispatcher of rebalances before Faust acts on them."""

    logger = _FAUST_LOG
    app: _StageApp

    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _wait_next_records(self, timeout: float) -> Any:
        # Faust looks for resumed partitions between fetches only, and sleeps for a second when
        # none is active. A paused partition comes back within milliseconds, so look sooner.
        if self._buffered_partitions:
            timeout = PAUSED_FETCH_TIMEOUT
            if not self._get_active_partitions() and self.flow_active:
                await self.sleep(PAUSED_FETCH_TIMEOUT)
                return None, set()
        return await super()._wait_next_records(timeout)

    async def _drain_messages(self, fetcher: Any) -> None:
        # Faust makes two tasks and two lookups in the other thread of every record on its way to
        # a topic. Here a batch goes to the dispatcher as it was fetched.
        feed, read = self.app.dispatcher.feed, self._read_offset
        try:
            while not (self._stopped.is_set() or fetcher._stopped.is_set()):
                batches, _ = await self._wait_next_records(FETCH_TIMEOUT)
                if not batches or self.should_stop:
                    await asyncio.sleep(0)
                elif not self.flow_active:
                    await self._read_again()  # a rebalance began meanwhile
                else:
                    for tp, messages in batches.items():
                        for message in messages:
                            # Twice, when the consumer was sent back to what is committed.
                            if message.offset >= (read[tp] or 0):
                                feed(inbound(message))
                                read[tp] = message.offset
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise

    async def _read_again(self) -> None:
        """Go back to what is committed: what was fetched must not be passed over."""
        while not self.should_stop:
            try:
                await self.perform_seek()
            except KafkaError as error:
                log.info("can't seek yet: %s", error)
                await asyncio.sleep(SEEK_INTERVAL)
            else:
                return

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        await self.app.leave([TopicPartition(tp.topic, tp.partition) for tp in revoked])
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self._thread.heard_at = time.monotonic()
        self.app.dispatcher.assign(TopicPartition(tp.topic, tp.partition) for tp in assigned)
        await super().on_partitions_assigned(assigned, generation_id)


class _Transport(driver.Transport):
    Consumer = _Consumer


def _credentials(connection: KafkaConnection) -> Any:
    context = connection.ssl_context()
    if connection.security_protocol.startswith("SASL"):
        return SASLCredentials(
            username=connection.sasl_username,
            password=connection.sasl_password,
            mechanism=connection.sasl_mechanism,
            ssl_context=context,
        )
    return SSLCredentials(context) if context else None
