"""The watchdog: a loop that stands still is found, one that turns is left alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

from ragstream.delivery.watchdog import STALLED, Watchdog


async def test_a_loop_that_stands_still_is_reported_with_its_stack() -> None:
    found: list[tuple[str, str]] = []
    told = threading.Event()

    def on_stall(name: str, stack: str) -> None:
        found.append((name, stack))
        told.set()

    def stand_still() -> None:
        told.wait(30)

    with Watchdog({"stages": asyncio.get_running_loop()}, timeout=0.1, on_stall=on_stall):
        await asyncio.sleep(0.05)  # it turned once
        stand_still()
    ((name, stack),) = found
    assert name == "stages"
    assert "stand_still" in stack


async def test_a_loop_that_turns_is_left_alone() -> None:
    found: list[str] = []
    dog = Watchdog(
        {"stages": asyncio.get_running_loop()},
        timeout=0.5,
        on_stall=lambda name, _: found.append(name),
    )
    with dog:
        for _ in range(20):
            await asyncio.sleep(0.05)
    assert found == []


async def test_a_closed_loop_is_no_stall() -> None:
    found: list[str] = []
    loop = asyncio.new_event_loop()
    loop.close()
    with Watchdog({"gone": loop}, timeout=0.05, on_stall=lambda name, _: found.append(name)):
        await asyncio.sleep(0.2)
    assert found == []


async def test_of_several_loops_the_one_that_stands_still_is_named() -> None:
    told: list[str] = []
    release = threading.Event()
    other = asyncio.new_event_loop()
    thread = threading.Thread(target=other.run_forever)
    thread.start()
    other.call_soon_threadsafe(release.wait)
    loops = {"stages": asyncio.get_running_loop(), "consumer": other}
    with Watchdog(loops, timeout=0.2, on_stall=lambda name, _: told.append(name)):
        while not told:
            await asyncio.sleep(0.01)
    release.set()
    other.call_soon_threadsafe(other.stop)
    thread.join()
    other.close()
    assert told == ["consumer"]


PROGRAM = """
import asyncio, time
from ragstream.delivery.watchdog import Watchdog

async def main():
    with Watchdog({"the stages": asyncio.get_running_loop()}, timeout=0.2):
        await asyncio.sleep(0.1)
        time.sleep(60)

asyncio.run(main())
"""


def test_the_process_ends_with_the_code_that_says_so() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == STALLED, (time.monotonic() - began, done.stderr)
    assert "the stages stands still" in done.stderr
    assert "line 8, in main" in done.stderr  # time.sleep
