"""The composition root: settings → adapters → stages → units that a runner can feed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from ragstream.adapters import postgres
from ragstream.adapters.clock import SystemClock
from ragstream.adapters.memory import MemoryBus
from ragstream.app.adapters import Adapters, collection_specs, open_adapters
from ragstream.app.stages import build_acceptance, build_stages
from ragstream.delivery.background import background
from ragstream.delivery.cancellation import Cancellations
from ragstream.delivery.dispatcher import Window
from ragstream.delivery.limit import follow_stops, keep_following
from ragstream.delivery.queries import Services
from ragstream.delivery.retry import Backoff
from ragstream.domain.topics import Topics
from ragstream.pipeline import StageUnit, build_units, floor_plan
from ragstream.settings import Settings

__all__ = ["Adapters", "Pipeline", "collection_specs", "open_pipeline"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything that a runner and its surroundings need."""

    settings: Settings
    topics: Topics
    adapters: Adapters
    services: Services
    units: list[StageUnit]


@asynccontextmanager
async def open_pipeline(
    settings: Settings,
    *,
    bus: MemoryBus | None = None,
    only: Collection[str] = (),
    replies: bool = True,
) -> AsyncIterator[Pipeline]:
    """Connect, validate, migrate, build.

    With a ``bus`` the pipeline runs on it, and components without an address are replaced by
    their in-memory twins; without one it runs on Kafka and needs them all. ``only``: the stages
    to build, all by default. ``replies``: whether answers are copied to ``reply_to``. Raises
    ``ConfigurationError``, ``DependencyUnavailable``.
    """
    topics = Topics(settings.kafka.prefix)
    async with AsyncExitStack() as stack:
        adapters = await open_adapters(settings, topics, bus, stack)
        if adapters.database is not None:
            for migration in await postgres.migrate(adapters.database):
                log.info("applied migration %s", migration.name)
            await stack.enter_async_context(
                background(
                    postgres.keep_purging(
                        postgres.PostgresLedger(adapters.database),
                        retention=settings.postgres.outcome_retention,
                    )
                )
            )
        await adapters.store.ensure(
            collection_specs(settings),
            create=settings.qdrant.ensure_collections,
            payload_indexes=settings.qdrant.ensure_payload_indexes,
        )
        services = Services(
            topics=topics,
            ledger=adapters.ledger,
            publisher=adapters.publisher,
            marks=adapters.marks,
            cancellations=Cancellations(),
            clock=SystemClock(),
            backoff=Backoff(settings.delivery.retry_base, settings.delivery.retry_max),
            replies=adapters.replies if replies else None,
            failure_limit=settings.delivery.dlt_limit,
            failure_period=settings.delivery.dlt_period,
        )
        concurrency = settings.delivery.concurrency
        steps = [
            replace(step, concurrency=getattr(concurrency, step.stage))
            for step in floor_plan(
                topics, build_stages(settings, topics, adapters), build_acceptance(settings)
            )
        ]
        window = Window(**settings.delivery.window.model_dump())
        units = build_units(steps, services, window=window, only=only)
        limits = [unit.handler.limit for unit in units]
        await follow_stops(limits, adapters.stops)
        await stack.enter_async_context(background(keep_following(limits, adapters.stops)))
        yield Pipeline(settings, topics, adapters, services, units)
