"""Running a pipeline: as a worker process on Kafka, or inside a program on the in-memory bus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from ragstream.adapters.kafka import KafkaBus
from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.adapters.memory import MemoryBus
from ragstream.app import Pipeline, open_pipeline
from ragstream.client import Client
from ragstream.connection import kafka_connection
from ragstream.delivery.background import background
from ragstream.delivery.watchdog import Watchdog
from ragstream.domain.declarations import declare, groups
from ragstream.domain.errors import ConfigurationError, InvalidEvent
from ragstream.domain.events import Cancel, DocumentEvent
from ragstream.domain.ports import Bus
from ragstream.domain.topics import Topics
from ragstream.health import Health
from ragstream.inprocess import MemoryRunner
from ragstream.pipeline import chosen_stages
from ragstream.settings import Settings
from ragstream.wire import decode, encode, event_id, record_key
from ragstream.worker import FaustRunner

__all__ = ["InProcess", "in_process", "run_worker"]

log = logging.getLogger(__name__)

#: Seconds that a cancel mark outlives its request: longer than any query.
CANCEL_TTL = 86_400.0
#: Seconds beyond the longest deadline after which a stage without progress is broken.
SLACK = 60.0


async def run_worker(
    settings: Settings,
    stages: Collection[str] = (),
    *,
    stop: asyncio.Event,
    ready: asyncio.Event | None = None,
    replies: bool = True,
) -> None:
    """Run stages (all by default) on Kafka until ``stop``; ``replies``: whether answers are copied
    to the topics that their queries name.

    Raises what made a stage unable to go on, so that the process ends and is started anew by
    whatever supervises it.
    """
    chosen = chosen_stages(stages)
    connection = kafka_connection(settings)
    delivery = settings.delivery
    # First of all, so that a worker that refuses to start has changed nothing.
    async with TopicAdmin(connection) as admin:
        await _initialise_groups(admin, settings.kafka.prefix, chosen, delivery.start)
    async with open_pipeline(settings, only=chosen, replies=replies) as pipeline:
        runner = FaustRunner(
            connection,
            pipeline.units,
            drain=delivery.drain,
            commit_interval=delivery.commit_interval,
            session_timeout=delivery.session_timeout,
            instance_id=delivery.instance_id,
            longest_work=delivery.max_deadline + SLACK,
        )
        bus = KafkaBus(connection)
        async with (
            Health(settings, pipeline.units, runner) as health,
            _cancelling(bus, pipeline),
        ):
            log.info("health on http://%s:%d/readyz", settings.worker.health_host, health.port)
            try:
                await runner.start()
                log.info("ready: %s", ", ".join(unit.stage for unit in pipeline.units))
                if ready is not None:
                    ready.set()
                with Watchdog(runner.loops(), timeout=settings.worker.stall_timeout):
                    await _until_stopped(stop, runner)
            finally:
                await runner.stop()
                await bus.aclose()


class InProcess:
    """A pipeline inside this program: ask through ``client``, index with ``ingest``."""

    def __init__(self, client: Client, bus: MemoryBus, topics: Topics) -> None:
        self.client = client
        self._bus = bus
        self._topics = topics

    async def ingest(self, documents: Sequence[DocumentEvent]) -> None:
        """Publish documents and return when they are indexed, or in the dead-letter topic."""
        now = datetime.now(UTC)
        await self._bus.publish(
            [
                encode(
                    document,
                    topic=self._topics.documents,
                    key=record_key(document.tenant, document.document_id),
                    id=event_id(document.tenant, document.document_id, now.isoformat()),
                    time=now,
                    subject=document.document_id,
                )
                for document in documents
            ]
        )
        group = self._topics.group("ingest")
        while self._bus.lag(group, self._topics.documents):  # noqa: ASYNC110  no one signals it
            await asyncio.sleep(0.01)


@asynccontextmanager
async def in_process(settings: Settings) -> AsyncIterator[InProcess]:
    """The whole pipeline on the in-memory bus.

    Components without an address in the settings are replaced by in-memory ones.
    """
    topics = Topics(settings.kafka.prefix)
    bus = MemoryBus(topics.all())
    async with open_pipeline(settings, bus=bus) as pipeline:
        runner = MemoryRunner(bus, pipeline.units, drain=settings.delivery.drain)
        async with _cancelling(bus, pipeline):
            await runner.start()
            try:
                async with Client(bus, prefix=settings.kafka.prefix) as client:
                    yield InProcess(client, bus, topics)
            finally:
                await runner.stop()


async def _initialise_groups(
    admin: TopicAdmin, prefix: str, stages: Collection[str], start: str
) -> None:
    """A group without offsets must not answer the whole history again, unless asked to."""
    topics = Topics(prefix)
    reading = groups(declare(topics))
    wanted = {group: reading[group] for group in map(topics.group, stages)}
    missing = await admin.uninitialised_groups(wanted)
    if not missing:
        return
    if start == "none":
        raise ConfigurationError(
            f"no committed offsets for {', '.join(sorted(missing))}: run `ragstream topics apply`, "
            "or start the worker with --from earliest or --from latest"
        )
    await admin.initialise_groups(
        {group: wanted[group] for group in missing}, latest=start == "latest"
    )


async def _until_stopped(stop: asyncio.Event, runner: FaustRunner) -> None:
    stopping = asyncio.ensure_future(stop.wait())
    failing = asyncio.ensure_future(runner.wait_failed())
    try:
        await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            raise failing.result()
    finally:
        stopping.cancel()
        failing.cancel()


@asynccontextmanager
async def _cancelling(bus: Bus, pipeline: Pipeline) -> AsyncIterator[None]:
    """Follow the control topic, outside any group: every worker has to hear of a cancellation."""
    async with bus.tail([pipeline.topics.control]) as records:

        async def follow() -> None:
            async for record in records:
                try:
                    cancel, _ = decode(record, Cancel, lenient=True)
                except InvalidEvent as error:
                    log.warning("unreadable control record at %d: %s", record.offset, error)
                    continue
                except Exception:  # a defect of ours: later requests must be heard all the same
                    log.exception("can't read the control record at %d", record.offset)
                    continue
                pipeline.services.cancellations.cancel(cancel.tenant, cancel.query_id)
                await pipeline.adapters.marks.cancel(cancel.tenant, cancel.query_id, ttl=CANCEL_TTL)

        async with background(follow()):
            yield
