"""What ``ragstream doctor`` looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from ragstream.adapters import openai, postgres, redis
from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.app import collection_specs
from ragstream.app.adapters import build_dense, build_store
from ragstream.cli.readiness import NobodyAnswers, readiness
from ragstream.cli.told import told
from ragstream.cli.topics import declared_for
from ragstream.connection import kafka_connection
from ragstream.domain.declarations import groups
from ragstream.domain.errors import ConfigurationError, PermanentError, RagstreamError
from ragstream.settings import Settings

__all__ = ["examine", "worker_pid"]

Check = Callable[[Settings, AsyncExitStack], Awaitable[str]]


async def examine(settings: Settings) -> list[tuple[str, bool, str]]:
    """Each component, whether it works, and what there is to say about it."""
    checks: dict[str, Check] = {
        "kafka": _kafka,
        "redis": _redis,
        "postgres": _postgres,
        "qdrant": _qdrant,
        "embeddings": _embeddings,
        "llm": _llm,
        "worker": _worker,
    }
    results = []
    for name, check in checks.items():
        async with AsyncExitStack() as stack:
            try:
                results.append((name, True, await check(settings, stack)))
            except RagstreamError as error:
                results.append((name, False, told(error)))
    return results


async def _kafka(settings: Settings, stack: AsyncExitStack) -> str:
    declared = declared_for(settings)
    admin = await stack.enter_async_context(TopicAdmin(kafka_connection(settings)))
    if problems := await admin.check(declared):
        more = f" (and {len(problems) - 1} more: `ragstream topics check`)" if problems[1:] else ""
        raise ConfigurationError(f"{problems[0]}{more}")
    readers = groups(declared)
    if lacking := await admin.uninitialised_groups(readers):
        raise ConfigurationError(
            f"no committed offsets for {', '.join(sorted(lacking))}: run `ragstream topics apply`"
        )
    lag = 0
    for group, topic in readers.items():
        lag += sum((await admin.lag(group, topic)).values())
    return f"{settings.kafka.bootstrap_servers}, {len(declared)} topics, lag {lag}"


async def _redis(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.redis.url is None:
        raise ConfigurationError("RAGSTREAM_REDIS__URL is not set")
    connection = redis.connect(settings.redis.url.get_secret_value())
    stack.push_async_callback(connection.aclose)
    await connection.ping()
    return "answers"


async def _postgres(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.postgres.dsn is None:
        raise ConfigurationError("RAGSTREAM_POSTGRES__DSN is not set")
    database = postgres.Database(
        settings.postgres.dsn.get_secret_value(), schema=settings.postgres.schema_name
    )
    stack.push_async_callback(database.aclose)
    await database.ping()
    waiting = await postgres.pending(database)
    return (
        f"answers, {len(waiting)} migrations wait for a worker" if waiting else "answers, migrated"
    )


async def _qdrant(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.qdrant.url is None:
        raise ConfigurationError("RAGSTREAM_QDRANT__URL is not set")
    store = build_store(settings, stack)
    await store.ping()
    specs = collection_specs(settings)
    try:
        await store.ensure(specs, create=False, payload_indexes=False)
    except ConfigurationError as error:
        _, *problems = str(error).splitlines()
        absent = all(problem.endswith(": does not exist") for problem in problems)
        if not (absent and settings.qdrant.ensure_collections):
            raise
        return "answers, collections are made when a worker starts"
    counts = [await store.count(spec.name) for spec in specs]
    return f"{settings.qdrant.url}, {sum(counts)} chunks in {len(counts)} collections"


async def _embeddings(settings: Settings, stack: AsyncExitStack) -> str:
    encoder = build_dense(settings, stack)
    vector = await encoder.encode_query("Is anybody there?")
    if len(vector) != settings.embeddings.dimensions:
        raise PermanentError(
            f"{encoder.model} gives {len(vector)} dimensions, "
            f"RAGSTREAM_EMBEDDINGS__DIMENSIONS says {settings.embeddings.dimensions}"
        )
    return f"{encoder.model}, {len(vector)} dimensions"


async def _llm(settings: Settings, stack: AsyncExitStack) -> str:
    llm = settings.llm
    if not llm.configured or llm.base_url is None:
        return "none configured: answers are extractive"
    key = llm.api_key.get_secret_value() if llm.api_key else None
    client = openai.connect(llm.base_url, key, connect_timeout=llm.connect_timeout)
    stack.push_async_callback(client.close)
    await openai.ping(client, timeout=5)
    return f"{llm.model or await openai.first_model(client)} at {llm.base_url}"


async def _worker(settings: Settings, stack: AsyncExitStack) -> str:
    try:
        found = await asyncio.to_thread(readiness, settings)
    except NobodyAnswers as error:
        return await _elsewhere(settings, stack, str(error))
    if place := found.elsewhere(settings):
        port = settings.worker.health_port
        return await _elsewhere(settings, stack, f"the worker on port {port} is on {place}")
    if problems := found.problems():
        raise PermanentError("; ".join(problems))
    return f"ready: {', '.join(found.stages)}"


async def _elsewhere(settings: Settings, stack: AsyncExitStack, here: str) -> str:
    """Workers on other machines or ports can't be asked, but the broker knows of them."""
    try:
        admin = await stack.enter_async_context(TopicAdmin(kafka_connection(settings)))
        members = await admin.members(groups(declared_for(settings)))
    except RagstreamError:
        members = {}
    if not any(members.values()):
        raise PermanentError(
            f"{here}: start `ragstream worker`, on a RAGSTREAM_WORKER__HEALTH_PORT of its own"
        )
    if idle := sorted(group for group, count in members.items() if not count):
        raise PermanentError(f"no worker reads for {', '.join(idle)}; others run, but {here}")
    return (
        f"runs elsewhere: every group has members ({here}; ask each with `ragstream worker "
        "--check` and its RAGSTREAM_WORKER__HEALTH_PORT)"
    )


def worker_pid(settings: Settings) -> dict[str, int]:
    """Process of the worker that answers on the health port, if one of this stack does."""
    try:
        found = readiness(settings)
    except RagstreamError:
        return {}
    return {} if found.elsewhere(settings) else {"worker": found.pid}
