"""Backoff, and the gate that holds a stage while a dependency is down."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import TypeVar

from ragstream.delivery.dispatcher import Lease
from ragstream.domain.errors import DependencyUnavailable, PartialFailure, TransientError

__all__ = ["Backoff", "Gate", "outages", "patiently"]

T = TypeVar("T")
log = logging.getLogger(__name__)

#: Seconds after which something is tried again whatever the other side asked for.
LONGEST_WAIT = 60.0
#: Seconds after which a gate that nobody comes to, though a probe is due, counts as open.
FORGOTTEN = 5.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential with full jitter, in seconds."""

    base: float = 0.1
    limit: float = 5.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Wait before attempt number ``attempt`` + 1; at least what the other side asked for, up to
        ``LONGEST_WAIT``."""
        ceiling = min(self.limit, self.base * 2 ** min(attempt, 16))
        return max(min(retry_after or 0.0, LONGEST_WAIT), random.uniform(ceiling / 2, ceiling))


class Gate:
    """Open while a stage's dependencies answer.

    When one is down, one record at a time probes it, at the backoff's pace; all others wait
    without making a call, until a probe succeeds or their own time runs out.
    """

    def __init__(self, backoff: Backoff, stage: str = "") -> None:
        self._stage = stage
        self._why: str | None = None
        self._backoff = backoff
        self._failures = 0
        self._waiting = 0
        self._probing = False
        self._next_probe = 0.0
        self._changed = asyncio.Event()

    @property
    def open(self) -> bool:
        return self._why is None

    @property
    def reason(self) -> str | None:
        """Why records wait, or None. Without records there are no probes, so that what was known
        of the dependency grows old: the next record will tell."""
        idle = asyncio.get_running_loop().time() - self._next_probe
        return self._why if self._waiting or idle < FORGOTTEN else None

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[None]:
        """Enter when the gate is open, or as its one probe. What the body raises decides."""
        self._waiting += 1
        try:
            probing = await self._enter()
        except BaseException:
            self._waiting -= 1
            raise
        try:
            yield
        except DependencyUnavailable as error:
            if self.open or probing:
                self._close(error)
            raise
        else:
            # A call that was under way when the gate closed proves nothing about now.
            if probing:
                log.info("%s goes on: the dependency answers again", self._stage)
                self._why = None
                self._failures = 0
        finally:
            self._waiting -= 1
            if probing:
                self._probing = False
                self._changed.set()
                self._changed = asyncio.Event()

    async def _enter(self) -> bool:
        """Whether the caller probes."""
        while not self.open:
            if self._probing:
                await self._changed.wait()
            elif (wait := self._next_probe - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(wait)
            else:
                self._probing = True
                return True
        return False

    def _close(self, error: DependencyUnavailable) -> None:
        if self.open:
            log.warning("%s pauses: %s", self._stage, error)
        self._why = str(error)
        delay = self._backoff.delay(self._failures, error.retry_after)
        self._failures += 1
        self._next_probe = asyncio.get_running_loop().time() + delay


@contextmanager
def outages() -> Iterator[None]:
    """Collections that may answer later are an outage of what holds them: it closes the gate."""
    try:
        yield
    except PartialFailure as error:
        if not error.retryable:
            raise
        down = [c for c in error.causes.values() if isinstance(c, DependencyUnavailable)]
        names = ", ".join(sorted({cause.dependency for cause in down})) or "collections"
        asked = max((cause.retry_after or 0.0 for cause in down), default=0.0)
        raise DependencyUnavailable(names, str(error), retry_after=asked or None) from error


async def patiently(
    call: Callable[[], Awaitable[T]],
    *,
    lease: Lease,
    backoff: Backoff,
    gate: Gate,
    slots: AbstractAsyncContextManager[object] | None = None,
) -> T:
    """Repeat a call until it succeeds or the partition moves away.

    For what must not be given up: the ledger, publishing, effects without a deadline. ``slots``:
    a semaphore that bounds the calls at once.
    """
    attempt = 0
    while True:
        lease.check()
        try:
            # In this order: what waits for a slot has not passed the gate yet.
            async with slots or nullcontext(), gate.passage():
                await lease.confirmed()
                return await call()
        except DependencyUnavailable:
            continue  # the gate knows when to try again
        except TransientError as error:
            log.info("trying again: %s", error)
            await asyncio.sleep(backoff.delay(attempt, error.retry_after))
            attempt += 1
