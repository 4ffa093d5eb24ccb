"""The limit of processing failures: a stage that fails one record after the other stops.

What went to a dead-letter topic can be replayed, but a defect or a wrong deployment would send
everything there. Records that can't be read do not count: whoever publishes rubbish must not be
able to stop the service. A stop is stored, so it outlives a restart and holds for all workers of
the stage, until an operator clears it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from ragstream.domain.errors import RagstreamError
from ragstream.domain.ports import StageStops

__all__ = ["FailureLimit", "follow_stops", "keep_following"]

log = logging.getLogger(__name__)


class FailureLimit:
    """Counts a stage's failures and holds its work once there are more than ``limit`` (0: no
    limit) within ``period`` seconds."""

    def __init__(
        self,
        stage: str,
        *,
        limit: int = 100,
        period: float = 60.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stage = stage
        self.reason: str | None = None
        #: Whether this process stopped the stage and the others don't know yet.
        self.untold = False
        self._limit = limit
        self._period = period
        self._now = now
        self._failures: deque[float] = deque(maxlen=limit + 1)
        self._working = asyncio.Event()
        self._working.set()

    def count(self, error: BaseException) -> None:
        """A record went to the dead-letter topic because of ``error``."""
        if not self._limit or self.reason is not None:
            return
        now = self._now()
        self._failures.append(now)
        if len(self._failures) > self._limit and now - self._failures[0] <= self._period:
            self.untold = True
            self.hold(
                f"more than {self._limit} records failed within {self._period:g} s, the last "
                f"with {type(error).__name__}: clear it with `ragstream dlt resume {self.stage}`"
            )

    def hold(self, reason: str) -> None:
        """Stop the stage."""
        if self.reason is None:
            log.error("%s stops: %s", self.stage, reason)
        self.reason = reason
        self._working.clear()

    def resume(self) -> None:
        """Let the stage go on, counting anew."""
        if self.reason is not None:
            log.warning("%s goes on", self.stage)
        self.reason = None
        self.untold = False
        self._failures.clear()
        self._working.set()

    async def passage(self) -> None:
        """Return when the stage may work."""
        await self._working.wait()


async def follow_stops(limits: Iterable[FailureLimit], stops: StageStops) -> None:
    """Bring limits and the stored stops together, once: tell of stages that were stopped here,
    hold those that are stopped elsewhere, resume those that were cleared."""
    limits = list(limits)
    for limit in limits:
        if limit.untold and limit.reason is not None:
            await stops.stop(limit.stage, limit.reason)
            limit.untold = False
    stored = await stops.stopped()
    for limit in limits:
        if limit.untold:
            continue  # stopped while we asked
        reason = stored.get(limit.stage)
        if reason is not None:
            limit.hold(reason)
        elif limit.reason is not None:
            limit.resume()


async def keep_following(
    limits: Iterable[FailureLimit], stops: StageStops, *, interval: float = 2.0
) -> None:
    """``follow_stops`` every ``interval`` seconds, for ever."""
    limits = list(limits)
    while True:
        await asyncio.sleep(interval)
        try:
            await follow_stops(limits, stops)
        except RagstreamError as error:
            log.info("stops are not known at the moment: %s", error)
