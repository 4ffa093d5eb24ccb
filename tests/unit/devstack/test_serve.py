"""Why a stack in the foreground stops, with a stack of which nothing is started."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, Self, cast

import pytest

from ragstream.devstack import stack as stack_module
from ragstream.devstack.stack import Stack, serve


class Nothing:
    """Runs until it is stopped."""

    endpoints = None

    def __init__(self) -> None:
        self.stopped = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stopped = True

    async def wait(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_is_told(signum: signal.Signals) -> None:
    stack, said = Nothing(), list[str]()

    def ready(_endpoints: Any) -> None:
        os.kill(os.getpid(), signum)

    assert await serve(cast(Stack, stack), said.append, ready) == 0
    assert said == [f"stopping: {signum.name}"]
    assert stack.stopped


async def test_the_end_of_its_parent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, said = Nothing(), list[str]()
    parents = iter([7, 1])
    monkeypatch.setattr(stack_module.os, "getppid", lambda: next(parents))
    assert await serve(cast(Stack, stack), said.append) == 0
    (reason,) = said
    assert reason.startswith("stopping: the process that started it (pid 7) has ended")
    assert stack.stopped
