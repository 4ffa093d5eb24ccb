"""A deployment of its own on the session's stack: topics, workers and commands under one prefix.

async with deployed(stack, folder) as site:
    async with site.worker():
        await site.ask("q1", "What is the default of acks?")
        record = await site.log.answer("q1")
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import orjson
import pytest
from aiokafka import AIOKafkaProducer

from ragstream.adapters.kafka import KafkaConnection
from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.client import Client
from ragstream.devstack.state import Endpoints
from ragstream.domain.declarations import declare, groups
from ragstream.domain.topics import Topics
from tests.support.topiclog import TopicLog, following

__all__ = ["PATIENCE", "Completed", "Deployment", "Worker", "deployed"]

PARTITIONS = 3
#: Seconds; far beyond what anything takes, so that a fault ends as a failure instead of a hang.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Completed:
    code: int
    out: str
    err: str


class Worker:
    """A running ``ragstream worker``."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log
        self._port: int | None = None

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def port(self) -> int:
        """Port of its health endpoint."""
        if self._port is None:
            _, _, rest = self.log.partition("health on http://127.0.0.1:")
            self._port = int(rest.partition("/")[0])
        return self._port

    async def health(self) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}/readyz") as response,
        ):
            return {"code": response.status, **await response.json()}

    async def ready(self) -> None:
        """Return when every stage has its partitions."""
        async with asyncio.timeout(PATIENCE):
            while "ready: " not in self.log or (await self.health())["code"] != 200:
                assert self.process.returncode is None, self.log
                await asyncio.sleep(0.1)

    async def stop(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """Signal it; the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signum)
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


class Deployment:
    """See ``deployed``. ``log``: everything on its topics; ``producer``: an ordinary one;
    ``database``: a connection to its schema."""

    def __init__(self, stack: Endpoints, folder: Path, variables: Mapping[str, str]) -> None:
        assert stack.kafka is not None
        name = f"test{uuid.uuid4().hex[:12]}"
        kinds = ("BOOKS", "DOCS", "ARTICLES", "PDFS", "NEWS")
        own = {
            "RAGSTREAM_KAFKA__PREFIX": name,
            "RAGSTREAM_KAFKA__PARTITIONS": str(PARTITIONS),
            "RAGSTREAM_REDIS__PREFIX": name,
            "RAGSTREAM_POSTGRES__SCHEMA_NAME": name,
            **{f"RAGSTREAM_QDRANT__COLLECTIONS__{kind}": f"{name}-{kind}" for kind in kinds},
            "RAGSTREAM_WORKER__HEALTH_PORT": "0",
            "RAGSTREAM_DELIVERY__COMMIT_INTERVAL": "0.2",
        }
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RAGSTREAM_", "OPENAI_"))
        }
        self.environment = {**inherited, **stack.environment(), **own, **variables}
        self.folder = folder
        self.topics = Topics(name)
        self.declared = declare(self.topics, "development", partitions=PARTITIONS)
        self.connection = KafkaConnection(stack.kafka)
        self.log: TopicLog
        self.producer: AIOKafkaProducer
        self.database: asyncpg.Connection
        self._workers = 0

    async def apply_topics(self) -> None:
        async with TopicAdmin(self.connection) as admin:
            await admin.apply(self.declared)

    async def initialise_groups(self) -> None:
        async with TopicAdmin(self.connection) as admin:
            await admin.initialise_groups(groups(self.declared))

    async def run(self, *arguments: str, **variables: str) -> Completed:
        """Run a ``ragstream`` command to its end."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ragstream", *arguments),
            cwd=self.folder,
            env={**self.environment, **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(2 * PATIENCE):
                out, err = await process.communicate()
        finally:
            await _end(process)
        assert process.returncode is not None
        return Completed(process.returncode, out.decode(), err.decode())

    async def launch(
        self, *arguments: str, program: Collection[str] = ("ragstream", "worker"), **variables: str
    ) -> Worker:
        """Start a worker process, which its caller has to end. ``program``: module to run, and its
        first arguments."""
        self._workers += 1
        log = self.folder / f"worker-{self._workers}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *program, *arguments),
                cwd=self.folder,
                env={**self.environment, **variables},
                stdout=output,
                stderr=output,
            )
        return Worker(process, log)

    @asynccontextmanager
    async def worker(self, *arguments: str, **variables: str) -> AsyncIterator[Worker]:
        """A worker process, ready on entry; it does not outlive the context."""
        worker = await self.launch(*arguments, **variables)
        try:
            await worker.ready()
            yield worker
        finally:
            await _end(worker.process)
            print(f"--- worker\n{worker.log}")  # shown by pytest when a test fails

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with Client.connect(self.connection, prefix=self.topics.prefix) as client:
            yield client

    async def ask(self, query_id: str, text: str, **fields: Any) -> None:
        """Publish a query as plain JSON, without any header."""
        await self.publish(self.topics.queries, {"query_id": query_id, "text": text, **fields})

    async def publish(
        self,
        topic: str,
        value: Mapping[str, Any] | bytes | None,
        *,
        key: bytes | None = None,
        headers: Collection[tuple[str, bytes | None]] = (),
    ) -> Any:
        """Publish a record with an ordinary producer; its place."""
        raw = orjson.dumps(value) if isinstance(value, Mapping) else value
        return await self.producer.send_and_wait(topic, raw, key=key, headers=list(headers))

    async def index(self, *documents: Mapping[str, Any]) -> None:
        """Have documents indexed by a running worker."""
        for document in documents:
            await self.publish(self.topics.documents, document)
        for document in documents:
            id = str(document["document_id"])
            await self.log.next(self.topics.index_changes, id)

    async def caught_up(self) -> None:
        """Return when no group has anything left to read."""
        async with TopicAdmin(self.connection) as admin, asyncio.timeout(PATIENCE):
            while await self.lag(admin):
                await asyncio.sleep(0.2)

    async def lag(self, admin: TopicAdmin) -> int:
        lag = 0
        for group, topic in groups(self.declared).items():
            lag += sum((await admin.lag(group, topic)).values())
        return lag


@asynccontextmanager
async def deployed(
    stack: Endpoints,
    folder: Path,
    *,
    initialised: bool = True,
    patience: float = PATIENCE,
    **variables: str,
) -> AsyncIterator[Deployment]:
    """A deployment without workers. ``initialised``: whether its groups have their first offsets;
    ``patience``: seconds to wait for a record; ``variables``: of the environment of everything
    that it runs."""
    if stack.kafka is None:
        pytest.skip(f"no broker: {stack.reason}")
    site = Deployment(stack, folder, variables)
    await site.apply_topics()
    if initialised:
        await site.initialise_groups()
    site.producer = AIOKafkaProducer(bootstrap_servers=stack.kafka, acks="all")
    site.database = await asyncpg.connect(
        stack.postgres, server_settings={"search_path": site.topics.prefix}
    )
    try:
        async with site.producer, following(stack.kafka, site.topics, patience) as site.log:
            yield site
    finally:
        await site.database.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()
