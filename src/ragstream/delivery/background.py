"""Work that goes on beside the pipeline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

__all__ = ["background"]

log = logging.getLogger(__name__)


@asynccontextmanager
async def background(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run a coroutine while the context lasts. Its failure is logged when it happens."""
    task = asyncio.create_task(work)
    task.add_done_callback(_tell)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended", task.get_coro(), exc_info=error)
