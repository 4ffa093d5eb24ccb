from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from ragstream.devstack import process
from ragstream.devstack.status import usage
from ragstream.domain.errors import DependencyUnavailable

SERVER = """
import signal, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""

PARENT = """
import asyncio, sys
from pathlib import Path
from ragstream.devstack.process import spawn

async def main():
    log, watch, *command = sys.argv[1:]
    await spawn("server", command, log=Path(log), watch=watch == "watch")
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def ready(log: Path) -> None:
    while "ready" not in process.tail(log):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("watch", [False, True])
async def test_stops_in_order(tmp_path: Path, watch: bool) -> None:
    log = tmp_path / "log"
    server = await process.spawn("s", [sys.executable, "-c", SERVER], log=log, watch=watch)
    await ready(log)
    assert process.is_alive(server.pid, server.started)
    assert await server.stop()
    assert not process.is_alive(server.pid, server.started)
    assert await server.stop()  # again changes nothing


@pytest.mark.parametrize("watch", [False, True])
async def test_kills_what_does_not_stop(tmp_path: Path, watch: bool) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SERVER, "stubborn"]
    server = await process.spawn("s", command, log=log, watch=watch)
    await ready(log)
    tree = [psutil.Process(server.pid), *psutil.Process(server.pid).children()]
    assert await server.stop(grace=0.2) is False
    _, alive = await asyncio.to_thread(psutil.wait_procs, tree, timeout=10)
    assert alive == []


@pytest.mark.parametrize("mode", ["exec", "watch"])
async def test_ends_with_its_parent(tmp_path: Path, mode: str) -> None:
    """Both guards: the kernel's signal, which only Linux has, and the pipe."""
    if mode == "exec" and not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells a process of its parent's end")
    log = tmp_path / "log"
    command = [sys.executable, "-c", PARENT, str(log), mode, sys.executable, "-c", SERVER]
    parent = await asyncio.create_subprocess_exec(*command)
    await ready(log)
    children = psutil.Process(parent.pid).children(recursive=True)
    assert len(children) == (2 if mode == "watch" else 1)
    parent.kill()
    await parent.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=10)
    assert alive == []


async def test_a_server_that_ends_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('port 7 is taken')"]
    server = await process.spawn("cache", command, log=tmp_path / "log", port=1)

    async def never() -> bool:
        return False

    with pytest.raises(DependencyUnavailable, match="cache: exited with code 1: port 7 is taken"):
        await process.until_ready(server, never)


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = await process.spawn("cache", [sys.executable, "-c", SERVER], log=log, port=1)

    async def never() -> bool:
        return False

    with pytest.raises(DependencyUnavailable, match="cache: not ready after 0 s"):
        await process.until_ready(server, never, timeout=0.05)
    await server.stop()


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    code = await process.run("x", [tmp_path / "absent"], log=tmp_path / "log")
    assert code == 127
    assert process.tail(tmp_path / "log") == [f"{tmp_path / 'absent'}: No such file or directory"]


async def test_works_in_a_folder(tmp_path: Path) -> None:
    server = await process.spawn("pwd", ["pwd", "-P"], log=tmp_path / "log", folder=tmp_path)
    await server.process.wait()
    (said,) = process.tail(tmp_path / "log")
    assert Path(said).name == tmp_path.name


async def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVER]
    with pytest.raises(TimeoutError):
        await process.run("x", command, log=tmp_path / "log", timeout=0.1)


async def test_ends_a_process_that_is_not_its_child(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = await process.spawn("s", [sys.executable, "-c", SERVER, "stubborn"], log=log)
    await ready(log)
    await process.end(server.pid, server.started - 3600, signal.SIGTERM)  # another process
    assert process.is_alive(server.pid, server.started)
    await process.end(server.pid, server.started, signal.SIGTERM, grace=0.1)
    assert not process.is_alive(server.pid, server.started)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_becomes_another_user(tmp_path: Path) -> None:
    user = process.User("nobody", 65534, 65534)
    await process.run("id", ["id", "-u"], log=tmp_path / "log", user=user)
    assert process.tail(tmp_path / "log") == ["65534"]


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert process.tail(log) == []
    log.write_text("".join(f"line {number}\n\n" for number in range(5000)))
    assert process.tail(log, 2) == ["line 4998", "line 4999"]


def test_memory_of_a_process() -> None:
    seen = usage("me", os.getpid(), 80)
    assert seen.running
    assert 0 < seen.memory <= seen.rss
    gone = usage("gone", 2**22 + 1)
    assert not gone.running
    assert gone.rss == gone.memory == 0
