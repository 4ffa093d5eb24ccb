"""What every generator does, and how OpenAI's failures are told."""

import asyncio
import logging
import socket
from dataclasses import replace

import pytest

from ragstream.adapters.extractive import ExtractiveGenerator
from ragstream.adapters.openai import (
    OpenAIEmbeddings,
    OpenAIGenerator,
    connect,
    first_model,
    ping,
)
from ragstream.domain.errors import (
    ConfigurationError,
    ContextDoesNotFit,
    DependencyUnavailable,
    GenerationFailed,
    PermanentError,
    TransientError,
)
from ragstream.domain.evidence import Document, Metadata
from ragstream.domain.ports import ChatMessage, GeneratedPiece, Generator, Prompt
from ragstream.prompting.extractive import extract
from ragstream.retrieval import analysis
from ragstream.testing import OpenAIServer

TEXT = "Kafka keeps records in partitions. A partition is an ordered log. It was raining."
PROMPT = Prompt(
    question="Where does Kafka keep records?",
    messages=(
        ChatMessage("system", f"Answer from the context.\n[CTX 1] http://a\n{TEXT}"),
        ChatMessage("user", "Where does Kafka keep records?"),
    ),
    documents=(
        Document(
            id="00000000-0000-0000-0000-000000000001",
            document_id="d",
            collection="docs",
            text=TEXT,
            metadata=Metadata(url="http://a", title="Kafka"),
        ),
    ),
    version="1",
)


@pytest.fixture
async def server():
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def client(server):
    async with connect(server.base_url) as client:
        yield client


@pytest.fixture
def openai_generator(client):
    return OpenAIGenerator(client, "some-model")


@pytest.fixture
def extractive_generator():
    return ExtractiveGenerator(analysis.default)


@pytest.fixture
def dense_extractive_generator(client):
    return ExtractiveGenerator(analysis.default, OpenAIEmbeddings(client, "e", 384))


@pytest.fixture(params=["openai", "extractive", "dense_extractive"])
def generator(request):
    return request.getfixturevalue(f"{request.param}_generator")


async def collect(generator, *, timeout=10.0, into=None):
    """All pieces; ``into`` keeps those that came before an error."""
    pieces = [] if into is None else into
    async for piece in generator.generate(PROMPT, timeout=timeout):
        pieces.append(piece)
    return pieces


# --- every generator -----------------------------------------------------------------------


async def test_streams_text_and_then_says_how_it_ended(generator):
    assert isinstance(generator, Generator)
    *pieces, last = await collect(generator)
    assert "partitions" in "".join(piece.text for piece in pieces)
    assert "[1]" in "".join(piece.text for piece in pieces)
    assert all(piece.text and piece.finish_reason is None for piece in pieces)
    assert last.finish_reason == "stop"
    assert last.text == ""


async def test_can_be_left_after_the_first_piece(generator):
    stream = generator.generate(PROMPT, timeout=10)
    assert (await anext(stream)).text
    await stream.aclose()


async def test_calls_at_the_same_time_do_not_mix(generator):
    results = await asyncio.gather(*(collect(generator) for _ in range(8)))
    assert all(result == results[0] for result in results)


# --- extractive ----------------------------------------------------------------------------


@pytest.fixture(params=["extractive", "dense_extractive"])
def either_extractive_generator(request):
    return request.getfixturevalue(f"{request.param}_generator")


@pytest.mark.parametrize(
    "prompt",
    [replace(PROMPT, documents=()), replace(PROMPT, question="Who won the chess cup of 1987?")],
    ids=["no documents", "not answered"],
)
async def test_extractive_says_when_nothing_answers(either_extractive_generator, prompt):
    pieces = [piece async for piece in either_extractive_generator.generate(prompt, timeout=10)]
    assert pieces == [GeneratedPiece(finish_reason="no_answer")]


async def test_extractive_streams_sentence_by_sentence(extractive_generator):
    documents = tuple(
        PROMPT.documents[0].model_copy(update={"text": text})
        for text in ("Brokers store records.", "Leaders replicate partitions.")
    )
    question = "Which store records, which replicate partitions?"
    prompt = replace(PROMPT, question=question, documents=documents)
    pieces = [piece.text async for piece in extractive_generator.generate(prompt, timeout=10)]
    assert len(pieces) == 3, "two sentences and the ending"
    picked = extract(prompt.question, documents, analysis.default)
    assert "".join(pieces) == picked.text
    assert extractive_generator.model == "extractive"


async def test_extractive_reports_its_encoder(server, dense_extractive_generator):
    server.hang(endpoint="embeddings", times=2)
    with pytest.raises(TransientError, match="in time"):
        await collect(dense_extractive_generator, timeout=0.05)
    await server.stop()
    with pytest.raises(DependencyUnavailable):
        await collect(dense_extractive_generator)


# --- OpenAI --------------------------------------------------------------------------------


async def test_request_and_usage(server, openai_generator):
    *_, last = await collect(openai_generator)
    [call] = server.calls
    assert call.body["temperature"] == 0.2
    assert call.body["stream_options"] == {"include_usage": True}
    assert call.model == openai_generator.model == "some-model"
    assert last.usage.input_tokens == len(call.text.split())
    assert last.usage.output_tokens > 0


async def test_options_of_the_request(server, client):
    generator = OpenAIGenerator(
        client,
        "m",
        temperature=None,
        count_usage=False,
        headers={"X-Tier": "production"},
        extra_body={"max_completion_tokens": 12},
    )
    *_, last = await collect(generator)
    [call] = server.calls
    assert "temperature" not in call.body
    assert "stream_options" not in call.body
    assert call.body["max_completion_tokens"] == 12
    assert call.headers["x-tier"] == "production"
    assert last.usage is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, PermanentError),
        (401, PermanentError),
        (403, PermanentError),
        (404, PermanentError),
        (408, TransientError),
        (429, TransientError),
        (500, TransientError),
        (502, DependencyUnavailable),
        (503, DependencyUnavailable),
    ],
)
async def test_statuses(server, openai_generator, status, expected):
    server.fail(status)
    with pytest.raises(expected) as caught:
        await collect(openai_generator)
    assert type(caught.value) is expected
    assert len(server.calls) == 1, "the client must not retry by itself"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("soon", None),
        ("inf", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after(server, openai_generator, header, seconds, status):
    server.fail(status, retry_after=header)
    with pytest.raises(TransientError) as caught:
        await collect(openai_generator)
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (400, "context_length_exceeded", "too long", ContextDoesNotFit),
        (400, None, "This model's maximum context length is 8192 tokens", ContextDoesNotFit),
        (400, "content_filter", "refused", GenerationFailed),
        (429, "insufficient_quota", "no credit", DependencyUnavailable),
    ],
)
async def test_error_codes(server, openai_generator, status, code, message, expected):
    server.fail(status, code=code, message=message)
    with pytest.raises(expected):
        await collect(openai_generator)


async def test_content_filter(server, openai_generator):
    server.reply("half an ans", finish_reason="content_filter")
    with pytest.raises(GenerationFailed, match="filter") as caught:
        await collect(openai_generator)
    assert not caught.value.retryable


async def test_length_is_a_finish_reason(server, openai_generator):
    server.reply("half an ans", finish_reason="length")
    assert (await collect(openai_generator))[-1].finish_reason == "length"


@pytest.mark.parametrize("after", [0, 2])
async def test_broken_stream_after_its_pieces(server, openai_generator, after):
    server.break_off("one two three", after=after)
    heard = []
    with pytest.raises(GenerationFailed, match="broke off") as caught:
        await collect(openai_generator, into=heard)
    assert len(heard) == after
    assert caught.value.retryable


async def test_no_choices_no_text_and_garbage(server, openai_generator):
    server.no_choices(times=1)
    with pytest.raises(GenerationFailed):
        await collect(openai_generator)
    server.reply("", times=1)
    with pytest.raises(GenerationFailed, match="no text"):
        await collect(openai_generator)
    server.garble(times=1)
    with pytest.raises(GenerationFailed):
        await collect(openai_generator)
    server.garble(b"{}", times=1)
    with pytest.raises(GenerationFailed):
        await collect(openai_generator)


async def test_time_limits(server, client):
    generator = OpenAIGenerator(client, "m", first_piece_timeout=0.05)
    server.hang(times=1)
    with pytest.raises(TransientError, match="in time"):
        await collect(generator)
    server.reply("late", first_delay=60, times=1)
    with pytest.raises(TransientError, match="in time"):
        await collect(generator)
    server.reply("one two", piece_delay=60, times=1)
    heard = []
    with pytest.raises(TransientError, match="in time"):
        await collect(OpenAIGenerator(client, "m"), timeout=1.0, into=heard)
    assert [piece.text for piece in heard] == ["one"]


async def test_leaving_early_closes_the_stream(server, openai_generator):
    server.reply("one two three", piece_delay=0.02)
    stream = openai_generator.generate(PROMPT, timeout=10)
    await anext(stream)
    await stream.aclose()
    await server.calls[0].over.wait()
    assert server.calls[0].abandoned


async def test_cancelling_closes_the_stream(server, openai_generator):
    server.hang()
    task = asyncio.create_task(collect(openai_generator))
    call = await server.next_call()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await call.over.wait()
    assert call.abandoned


async def test_outage_and_recovery(server, client, openai_generator):
    await ping(client)
    await server.stop()
    with pytest.raises(DependencyUnavailable) as caught:
        await collect(openai_generator)
    assert caught.value.dependency == "llm"
    with pytest.raises(DependencyUnavailable):
        await ping(client)
    await server.start()
    await ping(client)
    assert (await collect(openai_generator))[-1].finish_reason == "stop"


async def test_an_address_that_accepts_and_says_nothing_is_down():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with connect(f"http://127.0.0.1:{mute.getsockname()[1]}/v1") as client:
            with pytest.raises(DependencyUnavailable):
                await ping(client, timeout=0.05)


async def test_a_server_without_a_list_of_models_is_up(server, client):
    server.fail(404, endpoint="models", times=1)
    await ping(client)
    server.fail(401, endpoint="models", times=1)
    with pytest.raises(PermanentError):
        await ping(client)


async def test_the_key_is_sent_but_never_told(caplog, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    caplog.set_level(logging.DEBUG)
    async with OpenAIServer(api_key="sk-very-secret") as server:
        async with connect(server.base_url, "sk-very-secret") as client:
            generator = OpenAIGenerator(client, "m")
            await collect(generator)
            server.fail(401)
            with pytest.raises(PermanentError) as caught:
                await collect(generator)
            told = f"{client!r} {generator!r} {caught.value!r} {caplog.text}"
        assert "sk-very-secret" not in told
        async with connect(server.base_url) as client:
            with pytest.raises(PermanentError):
                await collect(OpenAIGenerator(client, "m"))
        assert "authorization" not in server.calls[-1].headers


async def test_the_first_model_that_the_endpoint_lists() -> None:
    async with OpenAIServer() as server:
        client = connect(server.base_url)
        try:
            assert await first_model(client) == "local"
            server.fail(404, endpoint="models")
            with pytest.raises(ConfigurationError, match="OPENAI_MODEL is not set"):
                await first_model(client)
        finally:
            await client.close()
