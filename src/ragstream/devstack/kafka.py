"""Kafka: one node that is broker and controller, from Maven Central or from Docker."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from ragstream.devstack import jars, process
from ragstream.devstack.jars import KAFKA_VERSION, NO_PERF_DATA
from ragstream.devstack.process import Report, Server
from ragstream.domain.errors import ConfigurationError

__all__ = ["Broker", "Choice", "Probes", "choose", "probe", "ready", "start", "start_docker"]

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
JAVA_NEEDED = 17

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    # One node holds every replica; few partitions of the internal topics make it start quickly.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Dead letters carry an input of up to 1 MiB and its headers.
    "message.max.bytes": str(4 * 1024 * 1024),
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
    "log.index.size.max.bytes": str(1024 * 1024),
}
"""Broker settings, the same in every way of starting it (docker-compose.yml too)."""

PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"

HEAP = ("-Xms64m", "-Xmx256m")
JVM = (
    *HEAP,
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxMetaspaceSize=128m",
    "-XX:ReservedCodeCacheSize=48m",
    "-XX:+ExitOnOutOfMemoryError",
    NO_PERF_DATA,
    "-Djava.awt.headless=true",
)


class Broker(StrEnum):
    """How the broker runs. ``MEMORY``: not at all; events stay in one process."""

    JAVA = "java"
    DOCKER = "docker"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Probes:
    """What this machine offers. ``java``: major version; ``jars``: Kafka lies in the cache."""

    java: int | None = None
    maven: bool = False
    jars: bool = False
    docker: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    broker: Broker
    reason: str


def choose(probes: Probes, wanted: Broker | None = None) -> Choice:
    """How to run the broker: as ``wanted``, else Java, Docker, nothing, in this order.

    Raises ``ConfigurationError`` if what is wanted can't be had.
    """
    missing = {
        Broker.JAVA: _java_missing(probes),
        Broker.DOCKER: "" if probes.docker else "no Docker daemon answers",
        Broker.MEMORY: "",
    }
    if wanted is not None:
        if missing[wanted]:
            raise ConfigurationError(
                f"Kafka can't run with {wanted}: {missing[wanted]}; install it, "
                "or let the way be chosen"
            )
        return Choice(wanted, "as asked")
    if not missing[Broker.JAVA]:
        return Choice(Broker.JAVA, f"Java {probes.java}")
    if not missing[Broker.DOCKER]:
        return Choice(Broker.DOCKER, missing[Broker.JAVA])
    return Choice(Broker.MEMORY, f"{missing[Broker.JAVA]}, and {missing[Broker.DOCKER]}")


def _java_missing(probes: Probes) -> str:
    if probes.java is None:
        return "there is no Java"
    if probes.java < JAVA_NEEDED:
        return f"Java {probes.java} is too old (Kafka {KAFKA_VERSION} needs {JAVA_NEEDED})"
    if not (probes.maven or probes.jars):
        return "there is no Maven to fetch Kafka with"
    return ""


async def probe(cache: Path) -> Probes:
    """Look at this machine."""
    version, docker = await asyncio.gather(
        _output(java(), NO_PERF_DATA, "-version"),
        _output("docker", "info", "--format", "{{.ServerVersion}}"),
    )
    cached = not await asyncio.to_thread(jars.faults, jars.jar_folder(cache), jars.pinned())
    return Probes(java_major(version), shutil.which("mvn") is not None, cached, bool(docker))


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def java_major(text: str) -> int | None:
    """Major version in the output of ``java -version``: 17 for ``17.0.15``, 8 for ``1.8.0_392``."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


async def _output(*command: str, timeout: float = 10.0) -> str:
    """What a command prints, both streams; empty if it fails."""
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError:
        return ""
    try:
        output, _ = await asyncio.wait_for(child.communicate(), timeout)
    except TimeoutError:
        child.kill()
        await child.wait()
        return ""
    return output.decode(errors="replace") if child.returncode == 0 else ""


async def start(
    data: Path, log: Path, cache: Path, *, port: int, controller_port: int, report: Report
) -> Server:
    """Start the broker on ``data``, formatting it first if it is new. Not ready yet."""
    class_path = os.pathsep.join(map(str, await jars.ensure(cache, report)))
    logging = files("ragstream.devstack") / "kafka-log4j2.xml"
    command = [java(), *JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", class_path]
    storage = data / "log"
    properties = data / "server.properties"
    if not _is_formatted(storage):
        report("kafka: formatting its storage")
        await _format(command, storage, properties, log)
    _write(properties, storage, port, controller_port)
    return await process.spawn(
        "kafka",
        [*command, "kafka.Kafka", properties],
        log=log,
        port=port,
        environment=_locale(data),
    )


async def _format(command: list[str], storage: Path, properties: Path, log: Path) -> None:
    # Formatted beside its place and moved there: an interrupted start leaves no half storage.
    fresh = storage.with_name("log.new")
    await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)
    await asyncio.to_thread(shutil.rmtree, storage, ignore_errors=True)
    _write(properties, fresh, 0, 0)
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id()]
    command = [*command, *tool, "--config", str(properties)]
    code = await process.run("kafka", command, log=log, environment=_locale(storage))
    if code != 0:
        lines = process.tail(log, 1) or ["no output"]
        raise ConfigurationError(f"Kafka could not format {storage}: {lines[-1]} (log: {log})")
    fresh.rename(storage)


def _locale(path: Path) -> dict[str, str]:
    """Java takes the names of files to be in the locale's encoding; ours are UTF-8."""
    return {} if str(path).isascii() else {"LC_ALL": "C.UTF-8"}


def _is_formatted(storage: Path) -> bool:
    return (storage / "meta.properties").exists()


def _write(properties: Path, storage: Path, port: int, controller_port: int) -> None:
    settings = {
        **SETTINGS,
        "log.dirs": str(storage),
        "listener.security.protocol.map": PROTOCOLS,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }
    properties.write_text(as_properties(settings), "ascii")


def as_properties(settings: Mapping[str, str]) -> str:
    """The file that java.util.Properties reads: as in JSON, everything but ASCII is escaped."""
    return "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())


def cluster_id() -> str:
    """A new one: 16 bytes in URL-safe base64 that no command line takes for an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made


async def start_docker(name: str, log: Path, *, port: int) -> Server:
    """Start the same broker in a container. Its data is a volume called as the container is.

    Unverified against a real Docker daemon.
    """
    await _output("docker", "rm", "--force", name)  # left behind by a crash
    return await process.spawn("kafka", docker_command(name, port), log=log, port=port)


def docker_command(name: str, port: int) -> list[str]:
    """The container with the settings of the plain broker, published on 127.0.0.1 only."""
    settings = {
        **SETTINGS,
        "log.dirs": "/var/lib/kafka/data",
        "listener.security.protocol.map": PROTOCOLS,
        "listeners": f"PLAINTEXT://:{port},CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": "1@localhost:9093",
    }
    command = ["docker", "run", "--rm", "--name", name, "--publish", f"127.0.0.1:{port}:{port}"]
    command += ["--volume", f"{name}:/var/lib/kafka/data"]
    environment = {**docker_environment(settings), "KAFKA_HEAP_OPTS": " ".join(HEAP)}
    for variable, value in environment.items():
        command += ["--env", f"{variable}={value}"]
    return [*command, IMAGE]


def docker_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as the image reads them: ``node.id`` is ``KAFKA_NODE_ID``."""
    return {f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in settings.items()}


async def ready(port: int) -> bool:
    """Whether the broker lists its topics."""
    admin = AIOKafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    try:
        await admin.start()
        await admin.list_topics()
    except KafkaError:
        return False
    finally:
        await admin.close()
    return True
