"""Serve a data folder until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
from pathlib import Path

from ragstream.domain.errors import ConfigurationError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ragstream.devstack.vectors",
        description="Local vector store for development.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=6333, help="0 takes a free one")
    parser.add_argument("--data", type=Path, required=True, help="folder of the collections")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        # The lock is held to the end of the process, however it ends.
        lock_folder(options.data)
        listener = listen(options.host, options.port)
    except ConfigurationError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    asyncio.run(serve(listener, options.data))
    return 0


def lock_folder(data: Path) -> int:
    """Descriptor of the lock. Raises ``ConfigurationError`` if another process has it."""
    data.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(data / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(f"{data} is in use by another process") from None
    return descriptor


def listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise ConfigurationError(f"can't listen on {host}:{port}: {error.strerror}") from error


async def serve(listener: socket.socket, data: Path) -> None:
    # Imported late, for it takes a second: a folder or port that is taken is told at once.
    from aiohttp import web

    from ragstream.devstack.vectors.engine import Collections
    from ragstream.devstack.vectors.service import create_app

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(create_app(Collections(data)), access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        host, port = listener.getsockname()[:2]
        sys.stdout.write(f"ready http://{host}:{port}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
