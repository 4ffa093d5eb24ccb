"""A server that we started: spawn it, wait until it answers, stop it in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ragstream.domain.errors import DependencyUnavailable

__all__ = [
    "Report",
    "Server",
    "User",
    "end",
    "is_alive",
    "run",
    "silent",
    "spawn",
    "tail",
    "until_ready",
]

Report = Callable[[str], None]

GUARD = Path(__file__).with_name("guard.py")
GRACE = 10.0
"""Seconds a server has for an orderly stop before it is killed."""


def silent(message: str) -> None:
    """The report of a caller who does not want any."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of this machine to run a server as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. ``started``: seconds since the epoch, tells it from a reused pid."""

    name: str
    port: int
    log: Path
    process: asyncio.subprocess.Process
    started: float
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def pid(self) -> int:
        return self.process.pid

    async def stop(self, grace: float = GRACE) -> bool:
        """Ask it to end, kill it after ``grace`` seconds. True if it ended by itself."""
        if self.process.returncode is not None:
            return True
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(self.stop_signal)
        try:
            await asyncio.wait_for(self.process.wait(), grace)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            await self.process.wait()
            return False
        return True

    def died(self) -> DependencyUnavailable:
        """The error that says how it ended."""
        lines = tail(self.log, 1) or ["no output"]
        return DependencyUnavailable(
            self.name, f"exited with code {self.process.returncode}: {lines[-1]} (log: {self.log})"
        )


async def spawn(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    port: int = 0,
    stop_signal: signal.Signals = signal.SIGTERM,
    user: User | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path = Path("/"),
    watch: bool = not sys.platform.startswith("linux"),
) -> Server:
    """Start ``command`` in a session of its own, under a guard, with its output in ``log``;
    ``folder`` is where it works.

    The calling thread must live as long as the server (see ``guard``).
    """
    guard = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), str(int(stop_signal))]
    guard += [str(GRACE), f"{user.uid}:{user.gid}" if user else "-", "watch" if watch else "exec"]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *guard,
            *map(str, command),
            stdin=asyncio.subprocess.PIPE if watch else asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        started = psutil.Process(process.pid).create_time()
    except psutil.NoSuchProcess:
        started = 0.0  # gone already: until_ready tells why
    return Server(name, port, log, process, started, stop_signal)


async def run(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    user: User | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 120.0,
) -> int:
    """Run ``command`` to its end and return its exit code; it ends with us, and in time."""
    server = await spawn(name, command, log=log, user=user, environment=environment)
    try:
        return await asyncio.wait_for(server.process.wait(), timeout)
    finally:
        await server.stop(grace=2.0)


async def until_ready(
    server: Server, probe: Callable[[], Awaitable[bool]], timeout: float = 60.0
) -> None:
    """Wait until ``probe`` says yes.

    Raises ``DependencyUnavailable`` if the server ends, or is not ready after ``timeout`` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while server.process.returncode is None:
        with contextlib.suppress(TimeoutError):
            if await listening(server.port) and await asyncio.wait_for(probe(), 5.0):
                return
        if loop.time() > deadline:
            raise DependencyUnavailable(
                server.name, f"not ready after {timeout:.0f} s (log: {server.log})"
            )
        await asyncio.sleep(0.05)
    raise server.died()


async def listening(port: int) -> bool:
    """Whether something accepts connections; spares the clients' noise about refused ones."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def tail(log: Path, lines: int = 10) -> list[str]:
    """The last lines of a log that are not blank."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


def is_alive(pid: int, started: float) -> bool:
    """Whether this very process runs: the pid is in use and was started then.

    Start times move a little when the clock is set, so a few seconds of difference are the same.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(float(process.create_time()) - started) < 5.0
    except psutil.NoSuchProcess:
        return False


async def end(pid: int, started: float, stop_signal: int, grace: float = GRACE) -> None:
    """End a process that is not our child, in order or else by force; nothing if it is gone."""
    for signum, patience in ((stop_signal, grace), (signal.SIGKILL, 2.0)):
        if is_alive(pid, started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)
        waited = 0.0
        while is_alive(pid, started) and waited < patience:
            await asyncio.sleep(0.1)
            waited += 0.1
