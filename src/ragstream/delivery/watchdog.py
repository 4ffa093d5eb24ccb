"""Ends a process whose event loop stands still, so that its supervisor starts it anew.

A consumer's heartbeats come from a thread of their own: the group never notices that the loop
which does the work has stopped, and the partitions would be held by a process that does nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Self

__all__ = ["STALLED", "Watchdog", "end_process"]

log = logging.getLogger(__name__)

#: Exit code of a process that the watchdog ended: EX_SOFTWARE of sysexits.h.
STALLED = 70
#: Looks within the time limit, all of which have to find the loop unmoved. Time alone is no
#: proof: a process that was suspended (SIGSTOP, a laptop's lid) wakes up late but healthy.
_LOOKS = 10


def end_process(name: str, stack: str) -> None:
    """Say what stands still and where, and exit with ``STALLED`` at once."""
    log.critical("%s stands still; ending the process. It is at:\n%s", name, stack)
    logging.shutdown()
    os._exit(STALLED)


class Watchdog:
    """Watches event loops while the context lasts.

    ``loops``: by name. ``timeout``: seconds that a loop may stand still. ``on_stall`` is called in
    the watchdog's thread with the loop's name and the stack of its thread.
    """

    def __init__(
        self,
        loops: Mapping[str, asyncio.AbstractEventLoop],
        *,
        timeout: float,
        on_stall: Callable[[str, str], None] = end_process,
    ) -> None:
        self._pulses = [_Pulse(name, loop) for name, loop in loops.items()]
        self._interval = timeout / _LOOKS
        self._on_stall = on_stall
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(timeout=1)

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            for pulse in self._pulses:
                if pulse.missed() >= _LOOKS:
                    self._on_stall(pulse.name, pulse.stack())
                    return


class _Pulse:
    """Asks a loop to show that it turns, and counts the times that it did not."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self._loop = loop
        self._misses = 0
        self._answered = True
        self._thread: int | None = None

    def missed(self) -> int:
        """Looks in a row without an answer."""
        if self._answered:
            self._misses = 0
            self._answered = False
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # closed: it has ended, which is no stall
                self._answered = True
        else:
            self._misses += 1
        return self._misses

    def stack(self) -> str:
        frame = sys._current_frames().get(self._thread or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else "(unknown)"

    def _answer(self) -> None:
        self._answered = True
        self._thread = threading.get_ident()
