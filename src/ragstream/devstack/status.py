"""What a running stack costs: pids, ports and memory of its components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from ragstream.devstack.state import DEFAULT_STATE, is_running, read_json
from ragstream.domain.errors import ConfigurationError

__all__ = ["Status", "Usage", "status", "usage"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory of a component's process tree, in MiB.

    ``memory`` divides shared pages among the processes that share them (PSS) where the system
    tells, and is ``rss`` elsewhere. Both are 0 for a component that does not run.
    """

    name: str
    pid: int
    port: int | None
    running: bool
    rss: float
    memory: float


@dataclass(frozen=True, slots=True)
class Status:
    """``pid``: the process that holds the stack."""

    pid: int
    components: tuple[Usage, ...]

    @property
    def total(self) -> float:
        """Memory of everything, in MiB."""
        return sum(component.memory for component in self.components)


def status(state: Path = DEFAULT_STATE, extra: Mapping[str, int] | None = None) -> Status:
    """Look at the stack that runs on ``state``, and at further pids by name (a worker's, say).

    Raises ``ConfigurationError`` if no stack runs there.
    """
    record = read_json(state / "dev.json")
    if not is_running(record):
        raise ConfigurationError(
            f"no development stack runs on {state}: start one with `ragstream dev`"
        )
    components = [
        usage(part["name"], part["pid"], part["port"], running=is_running(part))
        for part in record["components"]
    ]
    components += [usage(name, pid) for name, pid in (extra or {}).items()]
    return Status(int(record["pid"]), tuple(components))


def usage(name: str, pid: int, port: int | None = None, *, running: bool = True) -> Usage:
    """Memory of the process ``pid`` and everything below it."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)] if running else []
    except psutil.NoSuchProcess:
        tree = []
    sizes = [_sizes(process) for process in tree]
    rss, memory = (sum(column) / MIB for column in zip(*sizes, strict=True)) if sizes else (0, 0)
    return Usage(name, pid, port, bool(sizes), rss, memory)


def _sizes(process: psutil.Process) -> tuple[int, int]:
    """RSS and PSS in bytes; RSS twice where the system does not tell the PSS."""
    try:
        rss = process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0, 0
    try:
        return rss, getattr(process.memory_full_info(), "pss", rss)
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return rss, rss
