"""Ending a command in order: SIGTERM and SIGHUP stop it as Ctrl-C does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run"]

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """What ``asyncio.run`` does, but so that the first of these signals cancels ``work``, which
    then cleans up. Raises ``KeyboardInterrupt`` afterwards. Under ``nohup`` SIGHUP stays ignored.
    """

    async def interruptible() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) is not signal.SIG_IGN:
                loop.add_signal_handler(signum, task.cancel)
        return await work

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
