"""Cancelling queries that are being worked on in this process."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from ragstream.domain.errors import QueryCancelled

__all__ = ["Cancellations"]


class Cancellations:
    """Which tasks work on which query. Several may: a repeat or a replay of the query can be at
    one stage while the query itself is at another.

    The ``remembered`` latest cancellations also end what comes to be worked on after them.
    """

    def __init__(self, *, remembered: int = 10_000) -> None:
        self._remembered = remembered
        self._latest: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._working: dict[tuple[str, str], set[asyncio.Task[object]]] = {}
        self._cancelled: set[asyncio.Task[object]] = set()

    @contextmanager
    def watch(self, tenant: str, query_id: str) -> Iterator[None]:
        """While the body runs, ``cancel`` ends it with ``QueryCancelled``."""
        key = (tenant, query_id)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("watch() needs a running task")
        if key in self._latest:
            raise QueryCancelled("cancelled by the asker")
        self._working.setdefault(key, set()).add(task)
        try:
            yield
        except asyncio.CancelledError:
            # Still to be cancelled afterwards: the process shuts down as well.
            if task not in self._cancelled or task.uncancel():
                raise
            raise QueryCancelled("cancelled by the asker") from None
        finally:
            self._cancelled.discard(task)
            self._working[key].discard(task)
            if not self._working[key]:
                del self._working[key]

    def cancel(self, tenant: str, query_id: str) -> bool:
        """Whether the query was being worked on here. The tenant has to match."""
        key = (tenant, query_id)
        self._latest[key] = None
        if len(self._latest) > self._remembered:
            self._latest.popitem(last=False)
        tasks = self._working.get(key, set()) - self._cancelled
        for task in tasks:
            self._cancelled.add(task)
            task.cancel()
        return bool(tasks)
