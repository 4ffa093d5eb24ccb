"""Serve a data folder until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from aiohttp import web

from ragstream.devstack.vectors.engine import Collections
from ragstream.devstack.vectors.service import create_app
from ragstream.domain.errors import ConfigurationError


async def serve(host: str, port: int, data: Path) -> None:
    """Serve until told to stop. Raises ``ConfigurationError`` if the folder or port is taken."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(create_app(Collections(data)), access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigurationError(f"can't listen on {host}:{port}: {error.strerror}") from error
        sys.stdout.write(f"ready http://{host}:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await runner.cleanup()


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
        asyncio.run(serve(options.host, options.port, options.data))
    except ConfigurationError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
