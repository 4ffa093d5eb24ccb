"""Cancelling queries that are being worked on in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ragstream.domain.errors import QueryCancelled

__all__ = ["Cancellations"]


class Cancellations:
    """Which tasks work on which query."""

    def __init__(self) -> None:
        self._working: dict[tuple[str, str], asyncio.Task[object]] = {}
        self._cancelled: set[tuple[str, str]] = set()

    @contextmanager
    def watch(self, tenant: str, query_id: str) -> Iterator[None]:
        """While the body runs, ``cancel`` ends it with ``QueryCancelled``."""
        key = (tenant, query_id)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("watch() needs a running task")
        self._working[key] = task
        try:
            yield
        except asyncio.CancelledError:
            if key in self._cancelled:
                task.uncancel()
                raise QueryCancelled("cancelled by the asker") from None
            raise
        finally:
            self._cancelled.discard(key)
            if self._working.get(key) is task:
                del self._working[key]

    def cancel(self, tenant: str, query_id: str) -> bool:
        """Whether the query was being worked on here. The tenant has to match."""
        key = (tenant, query_id)
        task = self._working.get(key)
        if task is None:
            return False
        self._cancelled.add(key)
        task.cancel()
        return True
