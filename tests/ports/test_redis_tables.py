"""Answer cache, corpus generations, cancel and done marks: in memory and in Redis."""

import asyncio
import logging

import pytest
from redis.asyncio import Redis

from ragstream.adapters import redis
from ragstream.adapters.memory_state import (
    MemoryAnswerCache,
    MemoryCorpusGenerations,
    MemoryMarks,
)
from ragstream.adapters.redis import (
    RedisAnswerCache,
    RedisCorpusGenerations,
    RedisMarks,
)
from ragstream.domain.errors import DependencyUnavailable
from tests.ports.answers import answer, failed
from tests.ports.servers import ValkeyProcess

BOTH = ["memory", pytest.param("redis", marks=pytest.mark.integration)]
ODD = ["*", "a:b", "a%3Ab", "{x}", "../..", "tenant", "[a-z]*?", "~"]


@pytest.fixture(params=BOTH)
def cache(request):
    if request.param == "memory":
        return MemoryAnswerCache()
    return RedisAnswerCache(request.getfixturevalue("redis_connection"))


@pytest.fixture(params=BOTH)
def generations(request):
    if request.param == "memory":
        return MemoryCorpusGenerations()
    return RedisCorpusGenerations(request.getfixturevalue("redis_connection"))


@pytest.fixture(params=BOTH)
def marks(request):
    """A factory: the time to live of done inputs is set once for all."""
    if request.param == "memory":
        return MemoryMarks
    connection = request.getfixturevalue("redis_connection")
    return lambda **options: RedisMarks(connection, **options)


async def until_none(read):
    """Wait for an entry to expire."""
    async with asyncio.timeout(30):
        while await read():
            await asyncio.sleep(0.01)


# --- answer cache --------------------------------------------------------------------------


async def test_cache_gives_back_what_was_put(cache):
    assert await cache.get("acme", "k") is None
    await cache.put("acme", "k", answer(), ttl=60)
    assert await cache.get("acme", "k") == answer()
    await cache.put("acme", "k", failed(), ttl=60)
    assert await cache.get("acme", "k") == failed()


async def test_cache_keeps_tenants_and_odd_names_apart(cache):
    pairs = [(tenant, key) for tenant in ODD for key in ODD]
    for number, (tenant, key) in enumerate(pairs):
        await cache.put(tenant, key, answer(f"q{number}"), ttl=60)
    found = [(await cache.get(tenant, key)).query_id for tenant, key in pairs]
    assert found == [f"q{number}" for number in range(len(pairs))]


async def test_cache_forgets(cache):
    await cache.put("acme", "k", answer(), ttl=0.05)
    await cache.put("acme", "kept", answer(), ttl=60)
    await until_none(lambda: cache.get("acme", "k"))
    assert await cache.get("acme", "kept") is not None


# --- corpus generations --------------------------------------------------------------------


async def test_generations_grow_for_each_tenant_alone(generations):
    first, other = await generations.current("a"), await generations.current("b")
    assert await generations.current("a") == first
    second = await generations.bump("a")
    assert second > first
    assert await generations.current("a") == second
    assert await generations.bump("a") > second
    assert await generations.current("b") == other


async def test_bumps_at_the_same_time_are_all_different(generations):
    bumped = await asyncio.gather(*(generations.bump("a") for _ in range(20)))
    assert len(set(bumped)) == 20
    assert await generations.current("a") == max(bumped)


@pytest.mark.integration
async def test_an_evicted_generation_does_not_come_back(redis_connection, valkey):
    generations = RedisCorpusGenerations(redis_connection)
    seen = [await generations.current("a"), await generations.bump("a")]
    async with Redis.from_url(valkey.url) as client:
        server_time = await client.time()
        await client.delete(redis_connection.key("generation", "a"))
        now = server_time[0] * 1000 + server_time[1] // 1000
        while now <= seen[-1]:  # bumps within one millisecond run ahead of the clock
            seconds, micros = await client.time()
            now = seconds * 1000 + micros // 1000
    assert await generations.current("a") > max(seen)


# --- marks ---------------------------------------------------------------------------------


async def cancelled(marks, tenant, query_id):
    return (await marks.look("none", tenant, query_id)).cancelled


async def done(marks, id):
    return (await marks.look(id, "none", "none")).done


async def test_cancelled_queries(marks):
    marks = marks()
    assert await cancelled(marks, "a", "q") is False
    await marks.cancel("a", "q", ttl=60)
    assert await cancelled(marks, "a", "q") is True
    assert await cancelled(marks, "b", "q") is False
    assert await cancelled(marks, "a", "*") is False
    await marks.cancel("a", "short", ttl=0.05)
    await until_none(lambda: cancelled(marks, "a", "short"))


async def test_done_inputs(marks):
    many = marks()
    assert await done(many, "x") is False
    await many.done("x")
    assert await done(many, "x") is True
    assert await done(many, "y") is False
    brief = marks(ttl=0.05)
    await brief.done("z")
    await until_none(lambda: done(brief, "z"))


async def test_both_are_looked_at_together(marks):
    marks = marks()
    await marks.done("x")
    await marks.cancel("a", "q", ttl=60)
    looks = [("x", "a", "q"), ("x", "a", "r"), ("y", "a", "q"), ("y", "b", "q")]
    found = [tuple(await marks.look(*one)) for one in looks]
    assert found == [(True, True), (True, False), (False, True), (False, False)]


async def test_memory_tables_are_bounded():
    cache, now = MemoryAnswerCache(limit=3, now=lambda: 0.0), answer()
    for number in range(5):
        await cache.put("a", str(number), now, ttl=1)
    held = [number for number in range(5) if await cache.get("a", str(number))]
    assert held == [2, 3, 4]


# --- Redis alone ---------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"query_id": 1}', b"\xff"])
async def test_an_unreadable_entry_is_none_and_gone(redis_connection, valkey, value):
    cache = RedisAnswerCache(redis_connection)
    name = redis_connection.key("answer", "acme", "k")
    async with Redis.from_url(valkey.url) as client:
        await client.set(name, value)
        assert await cache.get("acme", "k") is None
        assert await client.exists(name) == 0
    assert cache.corrupt == 1


@pytest.mark.integration
async def test_keys_are_namespaced_and_expire(redis_connection, valkey):
    await RedisAnswerCache(redis_connection).put("acme", "k:1", answer(), ttl=60)
    await RedisMarks(redis_connection).cancel("acme", "q", ttl=60)
    await RedisMarks(redis_connection).done("d")
    prefix = redis_connection.key("x").removesuffix(":x")
    assert prefix.endswith(":v1")
    async with Redis.from_url(valkey.url, decode_responses=True) as client:
        names = [name async for name in client.scan_iter(f"{prefix}:*")]
        assert sorted(name.removeprefix(prefix) for name in names) == [
            ":answer:acme:k%3A1",
            ":cancel:acme:q",
            ":done:d",
        ]
        assert all([await client.pttl(name) > 0 for name in names])


@pytest.fixture
def own_valkey():
    server = ValkeyProcess()
    yield server
    server.resume()
    server.stop()


async def tables_fail_open(connection):
    assert await RedisAnswerCache(connection).get("a", "k") is None
    await RedisAnswerCache(connection).put("a", "k", answer(), ttl=60)
    marks = RedisMarks(connection)
    await marks.cancel("a", "q", ttl=60)
    await marks.done("d")
    assert await marks.look("d", "a", "q") == (False, False)
    with pytest.raises(DependencyUnavailable) as caught:
        await RedisCorpusGenerations(connection).current("a")
    assert caught.value.dependency == "redis"
    with pytest.raises(DependencyUnavailable):
        await RedisCorpusGenerations(connection).bump("a")


@pytest.mark.integration
async def test_outage_fails_open_and_recovers(own_valkey, caplog):
    caplog.set_level(logging.WARNING)
    connection = redis.connect(
        own_valkey.url, connect_timeout=5.0, operation_timeout=5.0, pause=0.0
    )
    cache = RedisAnswerCache(connection)
    await cache.put("a", "k", answer(), ttl=60)
    own_valkey.stop()
    await tables_fail_open(connection)
    with pytest.raises(DependencyUnavailable):
        await connection.ping()
    assert connection.failures == 8
    assert len([record for record in caplog.records if "does not answer" in record.message]) == 1
    own_valkey.start()
    await connection.ping()
    await cache.put("a", "k", answer(), ttl=60)
    assert await cache.get("a", "k") == answer()
    await connection.aclose()


@pytest.mark.integration
async def test_a_restart_between_two_calls_goes_unnoticed(own_valkey):
    connection = redis.connect(own_valkey.url, connect_timeout=5.0, operation_timeout=5.0)
    await connection.ping()
    own_valkey.stop()
    own_valkey.start()
    await RedisMarks(connection).cancel("a", "q", ttl=60)
    assert await cancelled(RedisMarks(connection), "a", "q")
    assert connection.failures == 0
    await connection.aclose()


@pytest.mark.integration
async def test_a_hanging_server_costs_one_time_limit(own_valkey):
    connection = redis.connect(own_valkey.url, operation_timeout=0.5, pause=60.0)
    await connection.ping()
    own_valkey.pause()
    async with asyncio.timeout(30):
        for _ in range(50):
            await tables_fail_open(connection)
    assert connection.failures == 350
    own_valkey.resume()
    await connection.ping()
    await RedisMarks(connection).cancel("a", "q", ttl=60)
    assert await cancelled(RedisMarks(connection), "a", "q")
    await connection.aclose()


async def test_an_address_where_nothing_listens():
    connection = redis.connect("redis://user:hunter2@127.0.0.1:1/0")
    await tables_fail_open(connection)
    with pytest.raises(DependencyUnavailable) as caught:
        await connection.ping()
    assert "hunter2" not in f"{caught.value!r} {connection!r}"
    await connection.aclose()
