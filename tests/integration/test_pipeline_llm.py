"""The pipeline with a language model and embeddings behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from ragstream import Answer, AnswerDelta, AnswerStatus
from ragstream.devstack.state import Endpoints
from ragstream.testing import OpenAIServer
from ragstream.testing.script import Call
from tests.support.corpus import DOCUMENTS
from tests.support.deployment import PATIENCE, Deployment, deployed
from tests.support.topiclog import body

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

ACKS = "What is the default of acks in Kafka 3.7?"


def writes(call: Call) -> bool:
    """Whether a call asks for an answer, not for a judgement."""
    return not call.wants_json


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    stack: Endpoints, model: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """One worker with all stages, and the corpus."""
    variables = {
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_MODEL": "small",
        "RAGSTREAM_EMBEDDINGS__PROVIDER": "openai",
        "RAGSTREAM_DELIVERY__RETRY_MAX": "0.5",
    }
    async with (
        deployed(stack, tmp_path_factory.mktemp("llm"), **variables) as site,
        site.worker(),
    ):
        await site.index(*DOCUMENTS)
        yield site


@pytest.fixture
def server(model: OpenAIServer) -> Iterator[OpenAIServer]:
    """The endpoint, without rules and calls of other tests."""
    model.clear()
    yield model
    model.clear()


async def test_the_model_routes_ranks_and_writes(site: Deployment, server: OpenAIServer) -> None:
    server.reply("In Kafka 3.7 it is all [1]. That is safe [9].", when=writes, piece_delay=0.06)
    await site.ask("written", ACKS)
    answer = await site.log.answer("written")
    assert answer["status"] == "answered"
    assert answer["model"] == "small"
    assert answer["text"] == "In Kafka 3.7 it is all [1]. That is safe."
    (citation,) = answer["citations"]
    assert (citation["number"], citation["document_id"]) == (1, "acks-3.7")
    assert answer["usage"]["input_tokens"] > answer["usage"]["output_tokens"] == 11
    assert answer["finish_reason"] == "stop"

    judged = [call.user for call in server.calls_of("chat") if call.wants_json]
    assert len(judged) == 2
    (routed,) = site.log.of(site.topics.routed, "written")
    assert body(routed)["routing"]["decided_by"] == "llm"
    (reranked,) = site.log.of(site.topics.reranked, "written")
    assert body(reranked)["evidence"]["ranked_by"] == "small"
    assert body(reranked)["evidence"]["encoder"] == "all-MiniLM-L6-v2"
    (written,) = filter(writes, server.calls_of("chat"))
    assert "The default of acks is all." in written.text
    assert "The default of acks is 1." not in written.text
    assert [call.inputs for call in server.calls_of("embeddings")]

    (record,) = site.log.answers("written")
    deltas = site.log.of(site.topics.answer_deltas, "written")
    events = [body(one) for one in deltas]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert {event["attempt"] for event in events} == {answer["attempt"]}
    assert "".join(event["text"] for event in events) == (
        "In Kafka 3.7 it is all [1]. That is safe [9]."
    )
    assert {one.key for one in deltas} == {record.key}
    early = [one for one in deltas if one.timestamp < record.timestamp]
    assert len(early) >= 3


async def test_the_client_streams(site: Deployment, server: OpenAIServer) -> None:
    server.reply("It is all [1].", when=writes, piece_delay=0.06)
    async with site.client() as client:
        *deltas, answer = [item async for item in client.stream(ACKS, cache="bypass")]
    assert isinstance(answer, Answer)
    assert answer.text == "It is all [1]."
    assert all(isinstance(delta, AnswerDelta) for delta in deltas)


async def test_a_failing_model_is_asked_again(site: Deployment, server: OpenAIServer) -> None:
    server.fail(503, when=writes, times=2)
    server.fail(500, when=writes, times=2)
    await site.ask("patient", ACKS, cache="bypass")
    answer = await site.log.answer("patient")
    assert answer["status"] == "answered"
    assert "The default of acks is all. [1]" in answer["text"]
    assert len(list(filter(writes, server.calls_of("chat")))) == 5


async def test_a_content_filter_fails_the_answer(site: Deployment, server: OpenAIServer) -> None:
    server.reply("It", when=writes, finish_reason="content_filter")
    await site.ask("filtered", ACKS, cache="bypass")
    answer = await site.log.answer("filtered")
    assert answer["status"] == "failed"
    assert answer["failure"]["stage"] == "answer"
    assert answer["failure"]["code"] == "generation_failed"
    assert answer["failure"]["retryable"] is False
    assert "content filter" in answer["failure"]["message"]
    assert answer["text"] == ""
    assert len(list(filter(writes, server.calls_of("chat")))) == 1


async def test_cancelling_a_query_ends_its_call(site: Deployment, server: OpenAIServer) -> None:
    server.hang(when=writes)
    async with site.client() as client:
        asking = asyncio.create_task(client.ask(ACKS, query_id="hanging", cache="bypass"))
        async with asyncio.timeout(PATIENCE):
            while not (calls := list(filter(writes, server.calls_of("chat")))):
                await server.next_call()
        await client.cancel("hanging", tenant="other")  # not theirs to cancel
        await client.cancel("hanging")
        answer = await asking
    assert answer.status is AnswerStatus.CANCELLED
    assert answer.failure is None
    async with asyncio.timeout(PATIENCE):
        await calls[0].over.wait()
    assert calls[0].abandoned
    await site.log.next(site.topics.answers, "hanging")
    assert len(site.log.answers("hanging")) == 1
