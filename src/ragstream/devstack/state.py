"""The state folder of a development stack: who runs it, where it answers, what it remembers.

dev.lock    held while it runs; pid and start time of the holder
dev.json    the running components, for `ragstream status`
dev.env     RAGSTREAM_* settings of the running components; mode 0600
ports.json  the ports of the last start
data/ logs/
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ragstream.devstack.process import is_alive
from ragstream.domain.errors import ConfigurationError

__all__ = ["DEFAULT_STATE", "Endpoints", "Lock", "endpoints_of", "password", "write_private"]

DEFAULT_STATE = Path(".ragstream")

VARIABLES = {
    "kafka": "RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS",
    "redis": "RAGSTREAM_REDIS__URL",
    "postgres": "RAGSTREAM_POSTGRES__DSN",
    "qdrant": "RAGSTREAM_QDRANT__URL",
}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the components answer.

    ``kafka``: bootstrap servers, or None for the in-memory bus; ``reason`` then says why.
    """

    kafka: str | None
    redis: str = field(repr=False)
    postgres: str = field(repr=False)
    qdrant: str
    reason: str = ""

    def environment(self) -> dict[str, str]:
        """The settings that lead to these components."""
        found = {variable: getattr(self, name) for name, variable in VARIABLES.items()}
        return {variable: value for variable, value in found.items() if value is not None}


def endpoints_of(state: Path = DEFAULT_STATE) -> Endpoints:
    """Endpoints of the stack that runs on ``state``. Raises ``ConfigurationError`` if none does."""
    try:
        lines = (state / "dev.env").read_text().splitlines()
    except OSError:
        raise ConfigurationError(
            f"no development stack runs on {state}: start one with `ragstream dev`"
        ) from None
    values = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    kafka = values.get(VARIABLES["kafka"])
    others = {name: values[VARIABLES[name]] for name in ("redis", "postgres", "qdrant")}
    return Endpoints(kafka=kafka, **others)


def write_env(path: Path, endpoints: Endpoints) -> None:
    """Write ``dev.env``; only its owner may read it, for the DSN holds a password."""
    lines = ["# Written by `ragstream dev`, removed when it stops."]
    lines += [f"{variable}={value}" for variable, value in endpoints.environment().items()]
    write_private(path, "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file at once; mode 0600."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)


def password(path: Path) -> str:
    """The password kept at ``path``; made on first use."""
    try:
        return path.read_text()
    except FileNotFoundError:
        made = secrets.token_urlsafe(18)
        write_private(path, made)
        return made


def read_json(path: Path) -> dict[str, Any]:
    """A file of ours; empty if it is absent or damaged."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


class Lock:
    """One stack per state folder.

    The kernel's file lock decides and ends with its process. The pid and start time in the file
    explain a refusal, tell a stop from a crash, and decide where the file system has no locks.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether we hold it."""
        return self._descriptor is not None

    def acquire(self) -> bool:
        """Take it. True if the last holder left without releasing it.

        Raises ``ConfigurationError`` if a live process holds it.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        holder = read_json(self.path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = False
        except BlockingIOError:
            held = True
        except OSError:  # a file system without locks
            held = False
        if held or is_running(holder):
            os.close(descriptor)
            pid = holder.get("pid", "unknown")
            raise ConfigurationError(
                f"a development stack already runs on {self.path.parent} (pid {pid}): use it, "
                f"stop it with `kill {pid}`, or choose another state folder"
            )
        me = {"pid": os.getpid(), "started": psutil.Process().create_time()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(me).encode(), 0)
        self._descriptor = descriptor
        return bool(holder)

    def release(self) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def is_running(record: Mapping[str, Any]) -> bool:
    """Whether the process of a record with ``pid`` and ``started`` is alive."""
    return bool(record) and is_alive(int(record["pid"]), float(record["started"]))
