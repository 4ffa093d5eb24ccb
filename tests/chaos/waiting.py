"""Waits that end, and say what they waited for when it does not come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

__all__ = ["PATIENCE", "eventually", "growing"]

#: Seconds; far beyond what anything takes on a busy machine.
PATIENCE = 120.0


async def eventually(look: Callable[[], Any], what: str, *, patience: float = PATIENCE) -> Any:
    """What ``look`` comes to, awaited if need be, as soon as that is true."""
    try:
        async with asyncio.timeout(patience):
            while True:
                found = look()
                if isinstance(found, Awaitable):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"waited {patience:g} s for {what}") from None


async def growing(
    count: Callable[[], int], goal: int, what: str, *, patience: float = PATIENCE
) -> None:
    """Return when the count is at its goal. It may take any time, as long as the count grows."""

    def beyond(before: int) -> bool:
        return count() > before

    while (reached := count()) < goal:
        await eventually(
            partial(beyond, reached),
            f"{what}: {reached} of {goal} came, and then no more",
            patience=patience,
        )
