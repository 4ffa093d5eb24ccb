"""What the Qdrant store raises when the server is away, slow, busy, or says no."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from ragstream.adapters.qdrant import QdrantVectorStore
from ragstream.domain.errors import (
    DependencyUnavailable,
    PartialFailure,
    PermanentError,
    RagstreamError,
)
from ragstream.domain.evidence import Scope, SearchRequest
from ragstream.domain.ports import CollectionSpec
from tests.support.vectors import NO_TERMS, indexed_chunk

Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]

FOUND = {"result": {"points": []}, "status": "ok", "time": 0.0}


@asynccontextmanager
async def store_over(respond: Respond) -> AsyncIterator[QdrantVectorStore]:
    """A store whose server is the handler."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    store = QdrantVectorStore.connect(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        yield store
    finally:
        await store.close()
        await runner.cleanup()


async def failure_of(
    store: QdrantVectorStore, *collections: str, timeout: float = 10.0
) -> PartialFailure:
    request = SearchRequest(
        collections=collections or ("docs",),
        scope=Scope("acme"),
        dense=(1.0, 0.0, 0.0),
        sparse=NO_TERMS,
        limit=3,
        prefetch=3,
        timeout=timeout,
    )
    with pytest.raises(PartialFailure) as caught:
        await store.search(request)
    return caught.value


def always(status: int, **headers: str) -> Respond:
    async def respond(_request: web.Request) -> web.Response:
        return web.json_response(
            {"status": {"error": "told so"}, "time": 0.0}, status=status, headers=headers
        )

    return respond


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    store = QdrantVectorStore.connect(f"http://127.0.0.1:{port}")
    failure = await failure_of(store, "docs", "books")
    assert set(failure.causes) == {"docs", "books"}
    assert failure.retryable
    for cause in failure.causes.values():
        assert isinstance(cause, DependencyUnavailable)
        assert cause.dependency == "qdrant"
    calls: list[Awaitable[object]] = [
        store.ping(),
        store.count("docs"),
        store.upsert("docs", [indexed_chunk(1)]),
        store.delete("docs", [indexed_chunk(1).chunk.id]),
        store.revisions("docs", "acme", "guide"),
        store.ensure([CollectionSpec("docs", 3)], create=True, payload_indexes=True),
    ]
    for call in calls:
        with pytest.raises(DependencyUnavailable):
            await call
    await store.close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (500, DependencyUnavailable),
        (503, DependencyUnavailable),
        (429, DependencyUnavailable),
        (408, DependencyUnavailable),
        (400, PermanentError),
        (401, PermanentError),
        (404, PermanentError),
    ],
)
async def test_statuses(status: int, kind: type[RagstreamError]) -> None:
    async with store_over(always(status)) as store:
        failure = await failure_of(store)
        assert type(failure.causes["docs"]) is kind
        assert "told so" in str(failure)
        assert failure.retryable is (kind is DependencyUnavailable)


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_passed_on(status: int) -> None:
    async with store_over(always(status, **{"Retry-After": "7"})) as store:
        cause = (await failure_of(store)).causes["docs"]
    assert isinstance(cause, DependencyUnavailable)
    assert cause.retry_after == 7


async def test_one_permanent_cause_makes_the_failure_permanent() -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        if "good" in request.path:
            return web.json_response(FOUND)
        return await always(503 if "busy" in request.path else 404)(request)

    async with store_over(respond) as store:
        mixed = await failure_of(store, "good", "busy", "gone")
        assert set(mixed.causes) == {"busy", "gone"}
        assert not mixed.retryable
        assert (await failure_of(store, "good", "busy")).retryable


async def test_a_silent_collection_is_given_up_at_the_deadline() -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        if "slow" in request.path:
            await asyncio.sleep(60)
        return web.json_response(FOUND)

    async with store_over(respond) as store:
        failure = await failure_of(store, "quick", "slow", "slow too", timeout=0.2)
    assert set(failure.causes) == {"slow", "slow too"}
    assert failure.retryable


async def test_an_answer_that_is_not_qdrants() -> None:
    async def respond(_request: web.Request) -> web.Response:
        return web.Response(text="<html>login</html>", content_type="text/html")

    async with store_over(respond) as store:
        failure = await failure_of(store)
    assert isinstance(failure.causes["docs"], PermanentError)


async def test_cancellation_is_not_a_failure() -> None:
    async def respond(_request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.json_response(FOUND)

    async with store_over(respond) as store:
        searching = asyncio.create_task(failure_of(store))
        await asyncio.sleep(0.1)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
