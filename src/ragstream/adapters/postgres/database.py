"""A connection pool that outlives outages, and what the server's errors mean to us."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from ragstream.domain.errors import (
    ConfigurationError,
    DependencyUnavailable,
    PermanentError,
    TransientError,
)

__all__ = ["Connection", "Database", "translated_errors"]

T = TypeVar("T")
Connection = asyncpg.Connection | PoolConnectionProxy
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

#: Outages, and what only an operator can mend: either way work must wait, not fail.
_UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutdown, crash, start-up, cancelled by the server
    asyncpg.InsufficientResourcesError,  # too many connections, disk or memory full
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedTableError,  # not migrated yet
    asyncpg.ReadOnlySQLTransactionError,  # a standby, in the middle of a failover
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


class Database:
    """Pooled connections to one schema. Nothing is opened before the first use.

    ``connect_timeout``: seconds to get a connection, a new one or one that others give back;
    ``command_timeout``: seconds for a statement. ``statement_cache_size``: 0 behind a pooler that
    shares connections between transactions.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "ragstream",
        connect_timeout: float = 2.0,
        command_timeout: float = 5.0,
        max_connections: int = 10,
        application_name: str = "ragstream",
        statement_cache_size: int = 100,
    ) -> None:
        if not _SCHEMA.fullmatch(schema):
            raise ConfigurationError(f"{schema!r} is no plain schema name (a-z, 0-9, _)")
        self.schema = schema
        self._dsn = dsn
        self._connect_timeout = connect_timeout
        self._command_timeout = command_timeout
        self._max_connections = max_connections
        self._settings = {"application_name": application_name, "search_path": schema}
        self._statement_cache_size = statement_cache_size
        self._pool: asyncpg.Pool | None = None

    async def run(self, operation: Callable[[Connection], Awaitable[T]]) -> T:
        """The operation's result on a pooled connection; raises our errors."""
        with translated_errors():
            pool = await self._open()
            async with pool.acquire(timeout=self._connect_timeout) as connection:
                return await operation(connection)

    async def connect(self, *, command_timeout: float) -> asyncpg.Connection:
        """A connection outside the pool, for work that takes longer than a statement may."""
        with translated_errors():
            return await asyncpg.connect(
                self._dsn,
                timeout=self._connect_timeout,
                command_timeout=command_timeout,
                server_settings=self._settings,
            )

    async def ping(self) -> None:
        """Return when the server answers, raise ``DependencyUnavailable`` when it does not."""
        await self.run(lambda connection: connection.execute("SELECT 1"))

    async def aclose(self) -> None:
        """Close the pool, not waiting for statements that are under way."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.terminate()

    async def _open(self) -> asyncpg.Pool:
        if self._pool is None:
            # With no minimum size this opens no connection, and so can't be caught in between.
            self._pool = asyncpg.create_pool(
                self._dsn,
                min_size=0,
                max_size=self._max_connections,
                timeout=self._connect_timeout,
                command_timeout=self._command_timeout,
                max_inactive_connection_lifetime=60.0,
                statement_cache_size=self._statement_cache_size,
                server_settings=self._settings,
                reset=_leave,
            )
        await self._pool
        return self._pool


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn the errors of the driver and the server into ours."""
    try:
        yield
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        raise PermanentError(f"postgres: {error}") from error
    except asyncpg.ClientConfigurationError as error:
        raise ConfigurationError(f"postgres: {error}") from error
    except _UNAVAILABLE as error:
        raise DependencyUnavailable("postgres", _describe(error)) from error
    except asyncpg.InterfaceError as error:
        if isinstance(error, ValueError):  # an argument that no statement can carry
            raise PermanentError(f"postgres: {error}") from error
        raise DependencyUnavailable("postgres", _describe(error)) from error
    except asyncpg.TransactionRollbackError as error:
        raise TransientError(f"postgres: {error}") from error
    except asyncpg.PostgresError as error:
        raise PermanentError(f"postgres: {error}") from error


async def _leave(_: Connection) -> None:
    """Our statements leave nothing in the session: spare the round trip of a reset."""


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
