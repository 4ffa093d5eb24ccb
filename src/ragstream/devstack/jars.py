"""Kafka's jars: fetched once by Maven, checked against a packaged list at every start."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path

from ragstream.devstack import process
from ragstream.devstack.process import Report, silent
from ragstream.domain.errors import ConfigurationError

__all__ = ["cache_folder", "ensure", "faults", "pinned"]

KAFKA_VERSION = "4.4.0"
ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"),
)
# The tools' own dependencies are Connect and its web server; the console tools need none of them.
WITHOUT_DEPENDENCIES = {"kafka-tools"}
PLUGIN = ("org.apache.maven.plugins", "maven-dependency-plugin", "3.8.1")

NO_PERF_DATA = "-XX:-UsePerfData"
"""Keeps a JVM from writing below /tmp."""

Fetch = Callable[[Path], Awaitable[None]]


def cache_folder() -> Path:
    """``$RAGSTREAM_CACHE``; else ``.cache/ragstream`` of the working folder where it exists, as
    after ``make setup``; else ``~/.cache/ragstream``, or the former without such a home."""
    if given := os.environ.get("RAGSTREAM_CACHE"):
        return Path(os.path.expanduser(given)).absolute()
    here, home = Path(".cache", "ragstream").absolute(), Path(os.path.expanduser("~"))
    at_home = home.is_absolute() and home.is_dir() and home.name != ""
    return home / ".cache" / "ragstream" if at_home and not here.is_dir() else here


def pinned() -> dict[str, str]:
    """File name and SHA-256 of every jar, from the packaged list (the format of sha256sum)."""
    text = (files("ragstream.devstack") / "kafka-jars.sha256").read_text()
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def faults(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """What is wrong with the jars in ``folder``: one phrase each, empty if all are right."""
    found = []
    for name, digest in wanted.items():
        try:
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    found.append(f"{name} is altered or truncated")
        except OSError:
            found.append(f"{name} is missing")
    return found


def jar_folder(cache: Path) -> Path:
    return cache / f"kafka-{KAFKA_VERSION}"


async def ensure(
    cache: Path,
    report: Report = silent,
    *,
    wanted: Mapping[str, str] | None = None,
    fetch: Fetch | None = None,
) -> list[Path]:
    """The jars in ``cache``, as a class path; fetched if they are absent or damaged.

    Any number of processes may call this at once: one fetches, the others wait.
    """
    wanted = pinned() if wanted is None else wanted
    folder = jar_folder(cache)
    wrong = await asyncio.to_thread(faults, folder, wanted)
    if wrong:
        _make(cache)
        async with _exclusive(cache / "kafka.lock", report):
            if await asyncio.to_thread(faults, folder, wanted):
                if len(wrong) < len(wanted):
                    report(f"kafka: {wrong[0]} in the cache, fetching anew")
                await _replace(folder, wanted, fetch or partial(_fetch, cache=cache, report=report))
    return [folder / name for name in sorted(wanted)]


def _make(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"can't write to the cache {cache} ({error.strerror}): set RAGSTREAM_CACHE"
        ) from None


async def _replace(folder: Path, wanted: Mapping[str, str], fetch: Fetch) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        jars = work / "jars"
        jars.mkdir()
        await fetch(jars)
        if wrong := await asyncio.to_thread(faults, jars, wanted):
            raise ConfigurationError(
                f"Maven did not deliver the expected Kafka {KAFKA_VERSION} ({wrong[0]}): "
                "check the mirrors in ~/.m2/settings.xml"
            )
        _swap(folder, jars, work / "old")
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)


def _swap(folder: Path, fresh: Path, old: Path) -> None:
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)


@asynccontextmanager
async def _exclusive(path: Path, report: Report) -> AsyncIterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        told = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    report("kafka: waiting for another process that fetches it")
                told = True
                await asyncio.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


async def _fetch(jars: Path, *, cache: Path, report: Report) -> None:
    report(f"kafka: fetching {KAFKA_VERSION} from Maven Central (45 MB, once)")
    work = jars.parent
    (work / "pom.xml").write_text(pom())
    log = cache / "maven.log"
    goal = ":".join(PLUGIN) + ":copy-dependencies"
    # Maven's repository lies in the working folder and goes with it: nothing else is touched, and
    # half of a broken download is never found again.
    command = ["mvn", "-B", "-q", "-f", str(work / "pom.xml"), goal, f"-DoutputDirectory={jars}"]
    command += [f"-Dmaven.repo.local={work / 'repository'}"]
    try:
        environment = {"MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} {NO_PERF_DATA}"}
        code = await process.run("maven", command, log=log, environment=environment, timeout=900.0)
    except TimeoutError:
        code = -1
    if code != 0:
        raise ConfigurationError(
            f"Maven could not fetch Kafka {KAFKA_VERSION} (log: {log}): check the network and the "
            "mirrors in ~/.m2/settings.xml, or start without a broker"
        )


def pom() -> str:
    """A project that depends on the pinned artifacts."""
    dependencies = "".join(_dependency(*artifact) for artifact in ARTIFACTS)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n'
        "  <modelVersion>4.0.0</modelVersion>\n"
        "  <groupId>ragstream</groupId>\n"
        "  <artifactId>devstack</artifactId>\n"
        "  <version>1</version>\n"
        "  <packaging>pom</packaging>\n"
        f"  <dependencies>\n{dependencies}  </dependencies>\n"
        "</project>\n"
    )


def _dependency(group: str, artifact: str, version: str) -> str:
    lines = [
        "    <dependency>",
        f"      <groupId>{group}</groupId>",
        f"      <artifactId>{artifact}</artifactId>",
        f"      <version>{version}</version>",
    ]
    if artifact in WITHOUT_DEPENDENCIES:
        lines.append(
            "      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
            "</exclusion></exclusions>"
        )
    return "\n".join([*lines, "    </dependency>\n"])
