"""The development stack, whose servers can be killed, stopped and started again on their data."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import psutil

from ragstream.devstack import jars, kafka, postgres, process, valkey
from ragstream.devstack.process import Server
from ragstream.devstack.stack import Stack
from ragstream.devstack.state import Endpoints
from ragstream.devstack.status import status
from tests.chaos.waiting import eventually

__all__ = ["Services"]


class Services:
    """Servers by their name in the stack: kafka, valkey, postgres, vectors."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._stack = Stack(state)
        self._servers: dict[str, Server] = {}
        self._pids: dict[str, int] = {}

    @property
    def endpoints(self) -> Endpoints:
        return self._stack.endpoints

    async def __aenter__(self) -> Self:
        await self._stack.start()
        self._pids = {part.name: part.pid for part in status(self._state).components}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in self._pids:
            self.resume(name)
        await asyncio.gather(*(server.stop() for server in self._servers.values()))
        await self._stack.stop()

    def alive(self, name: str) -> bool:
        return bool(self._processes(name))

    async def kill(self, name: str) -> None:
        """SIGKILL, to the server and its children; returns when they are gone."""
        victims = self._processes(name)
        _signal(victims, signal.SIGKILL)
        await eventually(lambda: not any(map(_lives, victims)), f"the end of {name}")

    def suspend(self, name: str) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        _signal(self._processes(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        _signal(self._processes(name), signal.SIGCONT)

    def limit_files(self, name: str, size: int) -> None:
        """No file of the server may grow beyond so many bytes, as on a full disk."""
        for one in self._processes(name):
            _, hard = one.rlimit(resource.RLIMIT_FSIZE)
            one.rlimit(resource.RLIMIT_FSIZE, (size, hard))

    async def restart(self, name: str) -> None:
        """Start a server that was killed, on the same data and port; returns when it answers."""
        ports = json.loads((self._state / "ports.json").read_text())
        secret = (self._state / "password").read_text()
        data = self._state / "data" / name
        log = self._state / "logs" / f"{name}-again.log"
        port = ports[name]
        if name == "kafka":
            server = await kafka.start(
                data,
                log,
                jars.cache_folder(),
                port=port,
                controller_port=ports["kafka-controller"],
                report=process.silent,
            )
            await process.until_ready(server, lambda: kafka.ready(port))
        elif name == "valkey":
            server = await valkey.start(data, log, port=port, secret=secret)
            await process.until_ready(server, lambda: valkey.ready(port, secret))
        elif name == "postgres":
            place = postgres.locate(data, process.silent)
            server = await postgres.start(place, secret, log, port=port, report=process.silent)
            await process.until_ready(server, lambda: postgres.ready(port, secret))
        else:
            command = [sys.executable, "-m", "ragstream.devstack.vectors", "--host", "127.0.0.1"]
            command += ["--port", str(port), "--data", str(data)]
            server = await process.spawn(name, command, log=log, port=port)
            await process.until_ready(server, lambda: _healthy(port))
        self._servers[name] = server
        self._pids[name] = server.pid

    def _processes(self, name: str) -> list[psutil.Process]:
        try:
            server = psutil.Process(self._pids[name])
            return [one for one in (server, *server.children(recursive=True)) if _lives(one)]
        except psutil.NoSuchProcess:
            return []


def _signal(processes: list[psutil.Process], signum: signal.Signals) -> None:
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(signum)


def _lives(one: psutil.Process) -> bool:
    try:
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def _healthy(port: int) -> bool:
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/healthz") as response,
        ):
            return response.status == 200
    except aiohttp.ClientError:
        return False
