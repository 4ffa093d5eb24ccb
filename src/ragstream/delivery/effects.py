"""What happens to a record whose stage has an effect: ingest writes to the index, history to
Postgres. No deadline: transient errors are tried again until the partition moves away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ragstream.delivery.deadletter import dead_letter
from ragstream.delivery.dispatcher import Lease
from ragstream.delivery.limit import FailureLimit
from ragstream.delivery.queries import Services
from ragstream.delivery.retry import Gate, outages, patiently
from ragstream.domain.errors import InvalidEvent, LeaseRevoked
from ragstream.domain.events import Event
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.wire import Envelope

__all__ = ["EffectHandler", "EffectStep"]

log = logging.getLogger(__name__)
E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class EffectStep(Generic[E]):
    """``run`` has the effect, which must be idempotent, and comes to the records to publish."""

    stage: str
    source: str
    read: Callable[[InboundRecord], tuple[E, Envelope]]
    run: Callable[[E], Awaitable[Sequence[OutboundRecord]]]
    concurrency: int = 16


class EffectHandler(Generic[E]):
    """Handles the records of one ``EffectStep``."""

    def __init__(self, step: EffectStep[E], services: Services) -> None:
        self._step = step
        self._services = services
        self._slots = asyncio.Semaphore(step.concurrency)
        self.work_gate = Gate(services.backoff, step.stage)
        self.publish_gate = Gate(services.backoff, step.stage)
        self.limit = FailureLimit(
            step.stage, limit=services.failure_limit, period=services.failure_period
        )

    @property
    def paused(self) -> str | None:
        """Why the stage waits, or None."""
        return self.limit.reason or self.work_gate.reason or self.publish_gate.reason

    async def __call__(self, record: InboundRecord, lease: Lease) -> None:
        try:
            event, _ = self._step.read(record)
            outputs = await patiently(
                lambda: self._run(event),
                lease=lease,
                backoff=self._services.backoff,
                gate=self.work_gate,
                slots=self._slots,
            )
        except LeaseRevoked:
            raise
        except Exception as error:
            unreadable = isinstance(error, InvalidEvent)
            level = logging.WARNING if unreadable else logging.ERROR
            log.log(level, "%s[%d]@%d: %s", *record.topic_partition, record.offset, error)
            topic = self._services.topics.dlt(self._step.source)
            outputs = [dead_letter(record, error, stage=self._step.stage, topic=topic)]
            if not unreadable:
                self.limit.count(error)
        if outputs:
            await patiently(
                lambda: self._services.publisher.publish(outputs),
                lease=lease,
                backoff=self._services.backoff,
                gate=self.publish_gate,
            )

    async def _run(self, event: E) -> Sequence[OutboundRecord]:
        await self.limit.passage()
        with outages():
            return await self._step.run(event)
