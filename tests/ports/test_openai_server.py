"""The test server speaks the API well enough for OpenAI's own client."""

import asyncio
import os
import signal
import sys

import openai
import pytest
from openai import AsyncOpenAI

from ragstream.adapters.openai import connect
from ragstream.testing import OpenAIServer

QUESTION = [
    {"role": "system", "content": "Answer from the context.\n[CTX 1] http://a\nParis. And more."},
    {"role": "user", "content": "What is the capital of France?"},
]


@pytest.fixture
async def server():
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def client(server):
    async with connect(server.base_url, "k") as client:
        yield client


async def ask(client: AsyncOpenAI, **extra):
    return await client.chat.completions.create(model="m", messages=QUESTION, **extra)


async def test_default_reply_cites_the_context(client, server):
    completion = await ask(client)
    assert completion.choices[0].message.content == "Paris. [1]"
    assert completion.usage.total_tokens > 0
    [call] = server.calls
    assert call.model == "m"
    assert call.user == "What is the capital of France?"
    assert call.headers["authorization"] == "Bearer k"


async def test_default_reply_is_the_sentence_nearest_to_the_question(client):
    context = "\n\n".join(
        f"[CTX {n}] http://{n}\nTitle: T\n<document>\n{text}\n</document>"
        for n, text in enumerate(["Rome is old.", "Not this. The capital of France is Paris."], 1)
    )
    said = f"<context>\n\n{context}\n\n</context>\n\nWhat is the capital of France?"
    rules = "Each document begins with its number, as in `[CTX 1]`.\nThe capital of France is it?"
    completion = await client.chat.completions.create(
        model="m",
        messages=[{"role": "system", "content": rules}, {"role": "user", "content": said}],
    )
    assert completion.choices[0].message.content == "The capital of France is Paris. [2]"


async def test_default_reply_without_context_refuses(client):
    completion = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hello"}]
    )
    assert "no document" in completion.choices[0].message.content


async def test_stream_joins_to_the_same_text_and_ends_with_usage(client):
    text = "  Two  lines,\nand a tail. [1]\n"
    async with OpenAIServer() as server:
        server.reply(text)
        async with connect(server.base_url, "k") as client:
            stream = await ask(client, stream=True, stream_options={"include_usage": True})
            chunks = [chunk async for chunk in stream]
    pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(pieces) == text
    assert len([piece for piece in pieces if piece]) > 3
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len(text.split())
    assert chunks[-2].choices[0].finish_reason == "stop"


async def test_no_usage_unless_asked_for(client):
    chunks = [chunk async for chunk in await ask(client, stream=True)]
    assert all(chunk.usage is None for chunk in chunks)


async def test_the_rule_added_last_wins_and_is_used_up(client, server):
    server.reply("always")
    server.reply("france", when="FRANCE", times=1)
    server.reply("never", when=lambda call: call.model == "other")
    said = [(await ask(client)).choices[0].message.content for _ in range(2)]
    assert said == ["france", "always"]


async def test_reply_computed_from_the_call(client, server):
    server.reply(lambda call: call.model.upper())
    assert (await ask(client)).choices[0].message.content == "M"


async def test_failures_carry_status_code_and_header(client, server):
    server.fail(429, retry_after=7, code="rate_limit_exceeded")
    with pytest.raises(openai.RateLimitError) as caught:
        await ask(client)
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.code == "rate_limit_exceeded"


async def test_half_a_stream(client, server):
    server.break_off("one two three", after=2)
    stream = await ask(client, stream=True)
    heard = [(await anext(stream)).choices[0].delta.content for _ in range(3)]
    assert "".join(heard) == "one two"
    with pytest.raises(openai.APIConnectionError):
        await anext(stream)


async def test_broken_whole_reply(client, server):
    server.break_off()
    with pytest.raises(openai.APIConnectionError):
        await ask(client)


async def test_hang_is_abandoned_by_the_caller(client, server):
    server.hang()
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.05).chat.completions.create(
            model="m", messages=QUESTION
        )
    await server.calls[0].over.wait()
    assert server.calls[0].abandoned


async def test_no_choices_and_garbled(client, server):
    server.no_choices(times=1)
    assert (await ask(client)).choices == []
    server.garble()
    with pytest.raises(ValueError, match=r"Expecting|JSON"):
        await ask(client)


async def test_json_mode_keeps_the_order_of_candidates(client):
    completion = await client.chat.completions.create(
        model="m",
        response_format={"type": "json_object"},
        messages=[
            {"role": "system", "content": 'Reply {"order": [0, 1]}'},
            {"role": "user", "content": "[0] a | u\ntext\n\n[1] b | u\ntext\n\n[2] c | u"},
        ],
    )
    assert completion.choices[0].message.content == '{"order":[0,1,2]}'


@pytest.mark.parametrize(
    ("question", "route"),
    [
        ("news of the market", "NEWS"),
        ("how do I use the API documentation", "DOCS"),
        ("what is the default", "DOCS"),  # little words decide nothing; the first it is
    ],
)
async def test_json_mode_picks_the_closest_route(client, question, route):
    completion = await client.chat.completions.create(
        model="m",
        response_format={"type": "json_object"},
        messages=[
            {
                "role": "system",
                "content": 'Reply {"route": name}.\n'
                "- DOCS: API documentation\n- NEWS: how the market is",
            },
            {"role": "user", "content": question},
        ],
    )
    assert completion.choices[0].message.content == f'{{"route":"{route}"}}'


@pytest.mark.parametrize("options", [{"encoding_format": "float"}, {}], ids=["float", "base64"])
async def test_embeddings_are_unit_vectors_near_for_common_words(client, server, options):
    texts = ["apple stock rises", "apple stock falls", "unrelated words here"]
    response = await client.embeddings.create(model="e", input=texts, dimensions=256, **options)
    assert server.calls[0].body["encoding_format"] == options.get("encoding_format", "base64")
    first, second, third = (item.embedding for item in response.data)
    assert len(first) == 256

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert dot(first, first) == pytest.approx(1, abs=1e-6)
    assert dot(first, second) > dot(first, third)


async def test_models_and_the_key():
    async with (
        OpenAIServer(api_key="right") as server,
        connect(server.base_url, "wrong") as client,
    ):
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
        models = await client.with_options(api_key="right").models.list()
        assert [model.id for model in models.data] == ["local"]


async def test_restart_keeps_the_port(client, server):
    url = server.base_url
    await server.stop()
    with pytest.raises(openai.APIConnectionError):
        await ask(client)
    await server.start()
    assert server.base_url == url
    assert (await ask(client)).choices


async def test_runs_on_its_own():
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ragstream.testing",
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        url = (await process.stdout.readline()).decode().strip()
        async with connect(url, "k") as client:
            assert (await client.models.list()).data
    finally:
        process.send_signal(signal.SIGINT)
    assert await process.wait() == 0
