"""Keeping what a library says over and over from filling the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

__all__ = ["Repeats"]


class Repeats(logging.Filter):
    """Lets a message of the named loggers pass once in ``interval`` seconds, with the number of
    those that were left out. Messages are the same if their format is: what they are about
    (addresses, tries) changes from one to the next."""

    def __init__(
        self,
        *names: str,
        interval: float = 30.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._names = names
        self._interval = interval
        self._now = now
        self._told: dict[tuple[str, str], float] = {}
        self._left_out: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not any(record.name == n or record.name.startswith(f"{n}.") for n in self._names):
            return True
        key = record.name, str(record.msg)
        now = self._now()
        if now - self._told.get(key, float("-inf")) < self._interval:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return False
        self._told[key] = now
        if left_out := self._left_out.pop(key, 0):
            record.msg = f"{record.getMessage()} ({left_out} more like it)"
            record.args = ()
        return True
