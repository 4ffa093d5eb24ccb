"""Embeddings behind the OpenAI API."""

import math

import pytest

from ragstream.adapters.openai import OpenAIEmbeddings, connect
from ragstream.domain.errors import DependencyUnavailable, PermanentError, TransientError
from ragstream.testing import OpenAIServer


@pytest.fixture
async def server():
    async with OpenAIServer(dimensions=64) as server:
        yield server


@pytest.fixture
async def client(server):
    async with connect(server.base_url) as client:
        yield client


@pytest.fixture
def encoder(client):
    return OpenAIEmbeddings(client, "embedder", 64, batch_size=4)


async def test_vectors(encoder):
    assert (encoder.model, encoder.dimensions) == ("embedder", 64)
    texts = ["apple stock", "banana bread", "", "apple pie"]
    vectors = await encoder.encode_passages(texts)
    assert [len(vector) for vector in vectors] == [64] * 4
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-6) for vector in vectors)
    query = await encoder.encode_query("apple stock")
    assert query == pytest.approx(vectors[0])
    assert await encoder.encode_passages([]) == []


async def test_batches_keep_the_order(server, encoder):
    texts = [f"word{number}" for number in range(10)]
    vectors = await encoder.encode_passages(texts)
    assert [len(call.inputs) for call in server.calls] == [4, 4, 2]
    assert [v for text in texts for v in await encoder.encode_passages([text])] == vectors


async def test_prefixes_headers_and_dimensions(server, client):
    encoder = OpenAIEmbeddings(
        client,
        "m",
        32,
        query_prefix="query: ",
        passage_prefix="passage: ",
        query_headers={"X-Tier": "production"},
        passage_headers={"X-Tier": "batch"},
        request_dimensions=True,
    )
    await encoder.encode_query("a")
    await encoder.encode_passages(["b", "c"])
    query, passages = server.calls
    assert (query.inputs, query.headers["x-tier"]) == (["query: a"], "production")
    assert passages.inputs == ["passage: b", "passage: c"]
    assert passages.headers["x-tier"] == "batch"
    assert query.body["dimensions"] == 32


async def test_another_length_than_configured_is_permanent(client):
    with pytest.raises(PermanentError, match="64 dimensions where 32"):
        await OpenAIEmbeddings(client, "m", 32).encode_query("a")


async def test_failures(server, client, encoder):
    server.fail(429, retry_after=2, endpoint="embeddings", times=1)
    with pytest.raises(TransientError) as caught:
        await encoder.encode_query("a")
    assert caught.value.retry_after == 2
    for body in (b"{", b"{}", b'{"data": []}'):
        server.garble(body, endpoint="embeddings", times=1)
        with pytest.raises(TransientError):
            await encoder.encode_query("a")
    server.hang(endpoint="embeddings", times=1)
    with pytest.raises(TransientError, match="in time"):
        await OpenAIEmbeddings(client, "m", 64, query_timeout=0.05).encode_query("a")
    await server.stop()
    with pytest.raises(DependencyUnavailable) as caught:
        await encoder.encode_query("a")
    assert caught.value.dependency == "embeddings"
    await server.start()
    assert await encoder.encode_query("a")
