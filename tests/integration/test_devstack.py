from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import uuid
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest
import redis.asyncio as redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from qdrant_client import AsyncQdrantClient, models

from ragstream.devstack import jars
from ragstream.devstack.kafka import Broker
from ragstream.devstack.stack import Stack
from ragstream.devstack.state import Endpoints, endpoints_of
from ragstream.devstack.status import status
from ragstream.domain.errors import ConfigurationError
from tests.support.stack import reachable_folder

pytestmark = pytest.mark.integration

TOPIC = "devstack-test"
BIG = b"x" * (2 * 1024 * 1024)


@pytest.fixture
def folder() -> Iterator[Path]:
    with reachable_folder() as found:
        yield found


@asynccontextmanager
async def served(state: Path, *arguments: str) -> AsyncIterator[Process]:
    """A process that serves the stack on ``state``, as the command line does; ready on entry."""
    command = [sys.executable, "-m", "tests.support.serve", str(state), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        await started(state, process)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def started(state: Path, process: Process) -> None:
    while not (state / "dev.env").exists():
        assert process.returncode is None
        await asyncio.sleep(0.05)


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


async def all_gone(processes: list[psutil.Process]) -> bool:
    """Whether every process ends within the time that an orderly stop may take."""
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, timeout=15)
    return not alive


async def write_everywhere(endpoints: Endpoints) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=endpoints.kafka)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])
    await admin.close()
    async with AIOKafkaProducer(
        bootstrap_servers=endpoints.kafka, enable_idempotence=True, max_request_size=4_000_000
    ) as producer:
        await producer.send_and_wait(TOPIC, BIG, key=b"k", partition=0)
    async with redis.Redis.from_url(endpoints.redis) as cache:
        await cache.set("k", "kept")
    connection = await asyncpg.connect(endpoints.postgres)
    await connection.execute("CREATE TABLE t (v text); INSERT INTO t VALUES ('Größe')")
    await connection.close()
    vectors = AsyncQdrantClient(url=endpoints.qdrant, check_compatibility=False)
    await vectors.create_collection(
        "c", {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    )
    point = models.PointStruct(id=7, vector={"dense": [1.0, 0.0]}, payload={"v": "kept"})
    await vectors.upsert("c", [point], wait=True)
    await vectors.close()


async def read_everywhere(endpoints: Endpoints) -> list[object]:
    async with AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=endpoints.kafka,
        group_id=f"reader-{uuid.uuid4()}",
        auto_offset_reset="earliest",
    ) as consumer:
        record = await anext(record async for record in consumer if record.key == b"k")
    async with redis.Redis.from_url(endpoints.redis, decode_responses=True) as cache:
        cached = await cache.get("k")
        policy = await cache.config_get("maxmemory-policy")
    connection = await asyncpg.connect(endpoints.postgres)
    row = await connection.fetchval("SELECT upper(v) FROM t")
    encoding = await connection.fetchval("SHOW server_encoding")
    await connection.close()
    vectors = AsyncQdrantClient(url=endpoints.qdrant, check_compatibility=False)
    points = await vectors.retrieve("c", [7])
    await vectors.close()
    return [record.value == BIG, cached, policy, row, encoding, points[0].payload]


async def produce_with_the_console(endpoints: Endpoints, line: str) -> bytes | None:
    """Publish with Kafka's own command-line tool, whose jar is in the cache too; reads it back."""
    tool = "org.apache.kafka.tools.ConsoleProducer"
    class_path = os.pathsep.join(map(str, await jars.ensure(jars.cache_folder())))
    command = ["java", "-cp", class_path, tool, "--topic", TOPIC]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--bootstrap-server",
        str(endpoints.kafka),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(f"{line}\n".encode()), 30)
    assert process.returncode == 0, output.decode()
    async with AIOKafkaConsumer(
        TOPIC, bootstrap_servers=endpoints.kafka, auto_offset_reset="earliest"
    ) as consumer:
        record = await anext(record async for record in consumer if record.key is None)
    return bytes(record.value)


KEPT = [True, "kept", {"maxmemory-policy": "allkeys-lru"}, "GRÖßE", "UTF8", {"v": "kept"}]


async def test_serves_real_clients_and_finds_its_data_again(folder: Path) -> None:
    others = children(os.getpid())  # of a stack that other tests share
    async with Stack(folder / "state") as stack:
        first = stack.endpoints
        assert stat.S_IMODE((folder / "state" / "dev.env").stat().st_mode) == 0o600
        await write_everywhere(first)
        assert await read_everywhere(first) == KEPT
        assert await produce_with_the_console(first, "from the console") == b"from the console"
        started = [one for one in children(os.getpid()) if one not in others]
        assert len(started) >= 4
    assert await all_gone(started)
    assert not (folder / "state" / "dev.env").exists()

    async with Stack(folder / "state") as stack:
        assert stack.endpoints == first
        assert await read_everywhere(stack.endpoints) == KEPT


async def test_nothing_survives_a_killed_stack_and_the_next_recovers(folder: Path) -> None:
    state = folder / "state"
    async with served(state) as process:
        endpoints = endpoints_of(state)
        await write_everywhere(endpoints)
        with pytest.raises(ConfigurationError, match=rf"already runs .* \(pid {process.pid}\)"):
            await Stack(state).start()
        seen = status(state, {"me": os.getpid()})
        assert seen.pid == process.pid
        assert {c.name for c in seen.components} == {"kafka", "valkey", "postgres", "vectors", "me"}
        assert all(c.running and 0 < c.memory <= c.rss for c in seen.components)
        assert seen.total - next(c.memory for c in seen.components if c.name == "me") < 900

        left = children(process.pid)
        process.kill()
        assert await all_gone(left)

    notes: list[str] = []
    async with Stack(state, report=notes.append) as stack:
        assert await read_everywhere(stack.endpoints) == KEPT
    assert any("recovering" in note for note in notes)


async def test_sigterm_stops_everything(folder: Path) -> None:
    state = folder / "state"
    async with served(state, "memory") as process:
        left = children(process.pid)
        process.terminate()
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, output.decode()
        assert await all_gone(left)
    assert not (state / "dev.env").exists()


async def test_stops_when_its_parent_dies(folder: Path) -> None:
    state = folder / "state"
    command = [sys.executable, "-m", "tests.support.serve", str(state), "memory"]
    # A parent that starts the stack and waits, as a shell does.
    script = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *command)
    try:
        await started(state, parent)
        left = children(parent.pid)
    finally:
        parent.kill()
        await parent.wait()
    assert len(left) >= 4
    assert await all_gone(left)


async def test_a_dead_component_stops_the_rest(folder: Path) -> None:
    state = folder / "state"
    async with served(state, "memory") as process:
        assert endpoints_of(state).kafka is None
        left = children(process.pid)
        [cache] = [c for c in status(state).components if c.name == "valkey"]
        os.kill(cache.pid, signal.SIGKILL)
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 1
        assert b"valkey: exited with code -9" in output
        assert b"Ready to accept connections" in output  # the tail of its log
        assert await all_gone(left)


async def test_a_failed_start_leaves_nothing(folder: Path) -> None:
    """Kafka's data of another cluster is in the way: the other three are stopped again."""
    state = folder / "state"
    storage = state / "data" / "kafka" / "log"
    storage.mkdir(parents=True)
    (storage / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=99\n")
    before = children(os.getpid())
    for name in ("data", "."):
        (state / name).chmod(0o711)
    with pytest.raises(Exception, match=r"kafka: exited with code 1: .*kafka\.log"):
        await Stack(state, broker=Broker.JAVA).start()
    assert [p for p in children(os.getpid()) if p not in before] == []
    async with Stack(state, broker=Broker.MEMORY) as stack:  # the lock is free again
        assert stack.endpoints.reason == "as asked"
