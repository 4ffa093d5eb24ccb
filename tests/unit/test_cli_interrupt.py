"""Ending commands by signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from ragstream.cli import interrupt


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_lets_the_work_clean_up(signum: signal.Signals) -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        os.kill(os.getpid(), signum)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned = True

    with pytest.raises(KeyboardInterrupt):
        interrupt.run(work())
    assert cleaned


def test_what_the_work_returns() -> None:
    async def work() -> int:
        return 5

    assert interrupt.run(work()) == 5


def test_nohup_stays_in_force() -> None:
    program = (
        "import asyncio, os, signal; from ragstream.cli import interrupt\n"
        "async def work():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    await asyncio.sleep(0)\n"
        "    print('done')\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "interrupt.run(work())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n")
