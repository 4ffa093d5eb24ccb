"""The development stack: four servers on one state folder, started and stopped together."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from ragstream.devstack import jars, kafka, postgres, process, valkey
from ragstream.devstack.kafka import Broker
from ragstream.devstack.ports import choose_ports
from ragstream.devstack.process import Report, Server, silent
from ragstream.devstack.state import (
    DEFAULT_STATE,
    Endpoints,
    Lock,
    password,
    read_json,
    write_env,
    write_private,
)
from ragstream.domain.errors import ConfigurationError

__all__ = ["COMPONENTS", "Stack", "serve"]

COMPONENTS = ("kafka", "valkey", "postgres", "vectors")
PORTS = (*COMPONENTS, "kafka-controller")


class Stack:
    """The servers of one state folder.

        async with Stack(report=print) as stack:
            stack.endpoints.kafka    # "127.0.0.1:25103"
            await stack.wait()       # returns when a server dies

    ``ports`` maps names of ``PORTS`` to port numbers; the others are those of the last start where
    they are still free. ``broker``: how Kafka runs, chosen by what the machine offers if None.

    Starting raises ``ConfigurationError`` for what the user can mend and ``DependencyUnavailable``
    when a server does not come up; whatever had started is stopped then. The thread that enters
    must live until the exit: the kernel stops the servers when it ends (see ``guard``).
    """

    def __init__(
        self,
        state: Path = DEFAULT_STATE,
        *,
        ports: Mapping[str, int] | None = None,
        broker: Broker | None = None,
        cache: Path | None = None,
        report: Report = silent,
    ) -> None:
        self.state = state.absolute()
        self._given = dict(ports or {})
        self._broker = broker
        self._cache = cache or jars.cache_folder()
        self._report = report
        self._lock = Lock(self.state / "dev.lock")
        self._servers: dict[str, Server] = {}
        self._endpoints: Endpoints | None = None

    @property
    def endpoints(self) -> Endpoints:
        """Where the components answer; only while the stack runs."""
        if self._endpoints is None:
            raise RuntimeError("the stack does not run")
        return self._endpoints

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> Endpoints:
        """Start everything at once and wait until everything answers."""
        try:
            self._make_folders()
            crashed = self._lock.acquire()
        except OSError as error:
            raise ConfigurationError(
                f"{self.state} can't be the state folder ({error.strerror}): choose another"
            ) from None
        if crashed:
            await self._recover()
        try:
            remembered = read_json(self.state / "ports.json")
            ports = choose_ports(PORTS, self._given, remembered)
            write_private(self.state / "ports.json", json.dumps(ports))
            self._endpoints = await self._start(ports)
            write_env(self.state / "dev.env", self._endpoints)
        except BaseException:
            await self.stop()
            raise
        return self._endpoints

    def _make_folders(self) -> None:
        # Others may pass, not look: the database's user has to reach its data.
        for folder in (self.state, self.state / "data", self.state / "logs"):
            folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        # The database makes its own.
        for name in ("kafka", "valkey", "vectors"):
            (self.state / "data" / name).mkdir(mode=0o700, exist_ok=True)

    async def _start(self, ports: Mapping[str, int]) -> Endpoints:
        secret = password(self.state / "password")
        starting = [
            asyncio.create_task(self._start_kafka(ports)),
            asyncio.create_task(self._start_valkey(ports["valkey"], secret)),
            asyncio.create_task(self._start_postgres(ports["postgres"], secret)),
            asyncio.create_task(self._start_vectors(ports["vectors"])),
        ]
        try:
            await asyncio.gather(*starting)
        finally:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
        reason = starting[0].result()
        return Endpoints(
            kafka=f"127.0.0.1:{ports['kafka']}" if "kafka" in self._servers else None,
            redis=valkey.url(ports["valkey"], secret),
            postgres=postgres.dsn(ports["postgres"], secret),
            qdrant=f"http://127.0.0.1:{ports['vectors']}",
            reason=reason or "",
        )

    async def _start_kafka(self, ports: Mapping[str, int]) -> str | None:
        """Returns why there is no broker, or None if there is one."""
        choice = kafka.choose(await kafka.probe(self._cache), self._broker)
        log, port = self._log("kafka"), ports["kafka"]
        if choice.broker is Broker.MEMORY:
            self._report(f"kafka: in-memory bus instead ({choice.reason})")
            return choice.reason
        if choice.broker is Broker.DOCKER:
            self._report(f"kafka: {kafka.IMAGE} in Docker ({choice.reason})")
            name = f"ragstream-{hashlib.sha256(str(self.state).encode()).hexdigest()[:12]}"
            server = await kafka.start_docker(name, log, port=port)
        else:
            server = await kafka.start(
                self.state / "data" / "kafka",
                log,
                self._cache,
                port=port,
                controller_port=ports["kafka-controller"],
                report=self._report,
            )
        # Docker may have to pull the image first.
        timeout = 600.0 if choice.broker is Broker.DOCKER else 60.0
        await self._up(server, lambda: kafka.ready(port), timeout)
        return None

    async def _start_valkey(self, port: int, secret: str) -> None:
        data = self.state / "data" / "valkey"
        server = await valkey.start(data, self._log("valkey"), port=port, secret=secret)
        await self._up(server, lambda: valkey.ready(port, secret))

    async def _start_postgres(self, port: int, secret: str) -> None:
        data = self.state / "data" / "postgres"
        place = await asyncio.to_thread(postgres.locate, data, self._report)
        server = await postgres.start(
            place, secret, self._log("postgres"), port=port, report=self._report
        )
        await self._up(server, lambda: postgres.ready(port, secret))

    async def _start_vectors(self, port: int) -> None:
        data = self.state / "data" / "vectors"
        command = [sys.executable, "-m", "ragstream.devstack.vectors", "--host", "127.0.0.1"]
        command += ["--port", str(port), "--data", str(data)]
        server = await process.spawn("vectors", command, log=self._log("vectors"), port=port)
        await self._up(server, lambda: asyncio.to_thread(_healthy, port))

    async def _up(
        self, server: Server, probe: Callable[[], Awaitable[bool]], timeout: float = 60.0
    ) -> None:
        self._servers[server.name] = server
        self._write_record()
        await process.until_ready(server, probe, timeout)
        self._report(f"{server.name}: ready on 127.0.0.1:{server.port}")

    def _log(self, name: str) -> Path:
        return self.state / "logs" / f"{name}.log"

    def _write_record(self) -> None:
        record = {
            "pid": os.getpid(),
            "started": psutil.Process().create_time(),
            "components": [
                {
                    "name": s.name,
                    "pid": s.pid,
                    "started": s.started,
                    "port": s.port,
                    "signal": int(s.stop_signal),
                }
                for s in self._servers.values()
            ],
        }
        write_private(self.state / "dev.json", json.dumps(record, indent=1))

    async def _recover(self) -> None:
        """The last stack here was killed: its servers may still be about to end."""
        self._report("the last stack on this folder did not stop in order: recovering")
        left = read_json(self.state / "dev.json").get("components", [])
        await asyncio.gather(*(process.end(c["pid"], c["started"], c["signal"]) for c in left))
        self._forget()

    async def wait(self) -> Server:
        """Wait until a server dies, which none should; returns it."""
        servers = self._servers.values()
        waiting = {asyncio.ensure_future(server.process.wait()): server for server in servers}
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        return waiting[done.pop()]

    async def stop(self) -> None:
        """Stop everything, in bounded time: what does not end is killed. May be repeated."""
        ended = await asyncio.gather(*(server.stop() for server in self._servers.values()))
        for name, orderly in zip(self._servers, ended, strict=True):
            if not orderly:
                self._report(f"{name}: did not stop in time and was killed")
        self._servers.clear()
        self._endpoints = None
        if self._lock.held:
            self._forget()
            self._lock.release()

    def _forget(self) -> None:
        for name in ("dev.env", "dev.json"):
            (self.state / name).unlink(missing_ok=True)


async def serve(
    stack: Stack, report: Report = silent, ready: Callable[[Endpoints], None] | None = None
) -> int:
    """Run ``stack`` until SIGINT, SIGTERM, SIGHUP or the end of our parent; returns the exit code.

    Under ``nohup``, where SIGHUP is ignored, the parent may go. The exit code is 1 if a server
    died; the report tells which, with the tail of its log. Errors of the start are raised.
    ``ready`` is called once everything answers. For the main thread only.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[str] = loop.create_future()

    def stop(reason: str) -> None:
        if not told.done():
            told.set_result(reason)

    detached = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signals = [signal.SIGINT, signal.SIGTERM, *([] if detached else [signal.SIGHUP])]
    for signum in signals:
        loop.add_signal_handler(signum, stop, signum.name)
    running = asyncio.create_task(_run(stack, ready))
    ends: list[asyncio.Future[str]] = [told]
    if not detached:
        ends.append(asyncio.create_task(_parent_gone(os.getppid())))
    tasks: list[asyncio.Future[Any]] = [running, *ends]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            if end.done():
                report(f"stopping: {end.result()}")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait([running])
        for signum in signals:
            loop.remove_signal_handler(signum)
    if running.cancelled():
        return 0
    dead = running.result()
    report(str(dead.died()))
    for line in process.tail(dead.log):
        report(f"  {line}")
    return 1


async def _run(stack: Stack, ready: Callable[[Endpoints], None] | None) -> Server:
    async with stack:
        if ready is not None:
            ready(stack.endpoints)
        return await stack.wait()


async def _parent_gone(parent: int) -> str:
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing portable tells of its end
        await asyncio.sleep(0.5)
    return f"the process that started it (pid {parent}) has ended; under nohup it would go on"


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
