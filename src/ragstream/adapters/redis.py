"""Tables in Redis or Valkey: cached answers, corpus generations, cancel and done marks.

Redis makes things faster and decides nothing. While it can't be reached, look-ups find nothing,
marks are lost, and nothing is raised; only a corpus generation, for which no harmless guess
exists, is reported as unavailable.

Keys are ``<prefix>:v1:<table>:<part>…``, each part percent-encoded, so that no id can reach into
another's keys whatever characters it has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

import orjson
from pydantic import ValidationError
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from ragstream.domain.errors import DependencyUnavailable
from ragstream.domain.events import Answer
from ragstream.domain.ports import Marked

__all__ = [
    "RedisAnswerCache",
    "RedisConnection",
    "RedisCorpusGenerations",
    "RedisMarks",
    "connect",
]

log = logging.getLogger(__name__)
T = TypeVar("T")

SCHEMA = "v1"
_LOG_EVERY = 30.0


def connect(
    url: str,
    *,
    prefix: str = "ragstream",
    connect_timeout: float = 0.5,
    operation_timeout: float = 0.5,
    max_connections: int = 50,
    pause: float = 1.0,
) -> RedisConnection:
    """A connection pool for ``redis://``, ``rediss://`` or ``unix://``; nothing is opened yet.

    ``connect_timeout`` and ``operation_timeout``: seconds. ``pause``: seconds after a failure in
    which Redis is not tried again, so that an outage does not cost every query a time limit.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=max_connections,
        timeout=operation_timeout,
        socket_connect_timeout=connect_timeout,
        socket_timeout=operation_timeout,
        health_check_interval=30,
        client_name="ragstream",
        # One more try, for a pooled connection that the server has closed meanwhile.
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    )
    return RedisConnection(Redis.from_pool(pool), prefix=prefix, pause=pause)


class RedisConnection:
    """What the tables share: the pool, the key space, and what is known of an outage.

    ``failures``: operations that Redis did not answer, those skipped while it is down included.
    """

    def __init__(self, client: Redis, *, prefix: str = "ragstream", pause: float = 1.0) -> None:
        self.failures = 0
        self._client = client
        self._prefix = prefix
        self._pause = pause
        self._closed_until = 0.0
        self._logged_at = float("-inf")

    def key(self, table: str, *parts: str) -> str:
        encoded = (quote(part, safe="") for part in parts)
        return ":".join((self._prefix, SCHEMA, table, *encoded))

    async def run(self, operation: Callable[[Redis], Awaitable[T]]) -> T:
        """The operation's result; ``DependencyUnavailable`` when Redis can't give it."""
        wait = self._closed_until - time.monotonic()
        if wait > 0:
            self.failures += 1
            raise DependencyUnavailable("redis", "it was down a moment ago", retry_after=wait)
        try:
            result = await operation(self._client)
        except (RedisError, OSError, TimeoutError) as error:
            self._note_failure(error)
            raise DependencyUnavailable("redis", str(error) or type(error).__name__) from error
        self._closed_until = 0.0
        return result

    async def attempt(self, operation: Callable[[Redis], Awaitable[T]]) -> T | None:
        """The operation's result, or None when Redis can't give it."""
        try:
            return await self.run(operation)
        except DependencyUnavailable:
            return None

    async def ping(self) -> None:
        """Return when Redis answers, raise ``DependencyUnavailable`` when it does not."""
        self._closed_until = 0.0
        await self.run(lambda redis: redis.ping())

    async def aclose(self) -> None:
        await self._client.aclose(close_connection_pool=True)

    def _note_failure(self, error: BaseException) -> None:
        now = time.monotonic()
        self.failures += 1
        self._closed_until = now + self._pause
        if now - self._logged_at >= _LOG_EVERY:
            self._logged_at = now
            log.warning("Redis does not answer (%d failures so far): %s", self.failures, error)


class RedisAnswerCache:
    """Finished answers by (tenant, key), as JSON. ``corrupt``: unreadable entries found."""

    def __init__(self, connection: RedisConnection) -> None:
        self.corrupt = 0
        self._redis = connection

    async def get(self, tenant: str, key: str) -> Answer | None:
        name = self._redis.key("answer", tenant, key)
        value = await self._redis.attempt(lambda redis: redis.get(name))
        if value is None:
            return None
        try:
            return Answer.model_validate(orjson.loads(value))
        except (orjson.JSONDecodeError, ValidationError) as error:
            self.corrupt += 1
            log.warning("dropping a cached answer that can't be read: %s", type(error).__name__)
            await self._redis.attempt(lambda redis: redis.delete(name))
            return None

    async def put(self, tenant: str, key: str, answer: Answer, *, ttl: float) -> None:
        name = self._redis.key("answer", tenant, key)
        value = orjson.dumps(answer.model_dump(by_alias=True, exclude_none=True))
        await self._redis.attempt(lambda redis: redis.set(name, value, px=_milliseconds(ttl)))


class RedisCorpusGenerations:
    """A growing number per tenant.

    Both methods raise ``DependencyUnavailable`` when Redis can't be reached: an answer made
    without knowing the generation must not be cached. A generation is at least the server's time
    in milliseconds when it is made, so one that was evicted never comes back as one that old
    cache entries were made under.
    """

    _NEXT = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local known = tonumber(redis.call('GET', KEYS[1]))
        if known and ARGV[1] == 'current' then return known end
        local next = math.max(now, (known or 0) + 1)
        redis.call('SET', KEYS[1], string.format('%.0f', next))
        return next
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    async def current(self, tenant: str) -> int:
        return await self._next(tenant, "current")

    async def bump(self, tenant: str) -> int:
        return await self._next(tenant, "bump")

    async def _next(self, tenant: str, action: str) -> int:
        name = self._redis.key("generation", tenant)
        return int(await self._redis.run(lambda redis: redis.eval(self._NEXT, 1, name, action)))


class RedisMarks:
    """Done inputs, for ``ttl`` seconds (longer than a redelivery may lag); cancelled queries."""

    def __init__(self, connection: RedisConnection, *, ttl: float = 86_400.0) -> None:
        self._redis = connection
        self._ttl = ttl

    async def look(self, id: str, tenant: str, query_id: str) -> Marked:
        names = self._redis.key("done", id), self._redis.key("cancel", tenant, query_id)
        found = await self._redis.attempt(lambda redis: redis.mget(names))
        return Marked(*(value is not None for value in found)) if found else Marked()

    async def done(self, id: str) -> None:
        await self._set(self._redis.key("done", id), self._ttl)

    async def cancel(self, tenant: str, query_id: str, *, ttl: float) -> None:
        await self._set(self._redis.key("cancel", tenant, query_id), ttl)

    async def _set(self, name: str, ttl: float) -> None:
        await self._redis.attempt(lambda redis: redis.set(name, b"1", px=_milliseconds(ttl)))


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
