"""A chain's process, and what it uses of the machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

__all__ = ["ChainProcess", "chain_process"]

MEBIBYTE = 1024 * 1024


class ChainProcess:
    """See ``chain_process``."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._seen = psutil.Process(process.pid)
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """Seconds of CPU so far, all threads, user and system."""
        times = self._seen.cpu_times()
        return times.user + times.system

    def memory(self) -> float:
        """Resident memory in MiB."""
        return self._seen.memory_info().rss / MEBIBYTE

    def peak_memory(self) -> float:
        """Largest resident memory so far, in MiB. Where the kernel does not tell: the present."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return self.memory()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / 1024

    def files(self) -> int:
        """Open file descriptors."""
        return self._seen.num_fds()

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    async def wait(self) -> int:
        return await self._process.wait()

    def check(self) -> None:
        """Raise if it ended by itself."""
        if self._process.returncode is not None:
            raise self.fault(f"ended with code {self._process.returncode}")

    def fault(self, what: str) -> RuntimeError:
        """An error that shows the end of the log."""
        tail = self._log.read_text(errors="replace")[-3000:]
        return RuntimeError(f"{self._log.stem} {what}:\n{tail}")


@asynccontextmanager
async def chain_process(
    module: str, environment: Mapping[str, str], log: Path
) -> AsyncIterator[ChainProcess]:
    """``module`` as a process of its own, killed at the end of the context."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield ChainProcess(process, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
