"""The whole pipeline on the in-memory bus: the same stages, delivery and client as on Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ragstream import Answer, AnswerDelta, AnswerStatus, QueryRejected
from ragstream.domain.events import CacheHit, DocumentAction, DocumentEvent
from ragstream.serve import InProcess, in_process
from ragstream.settings import load_settings
from ragstream.testing import OpenAIServer

MANUAL = """# Producer

## acks

The number of acknowledgments the producer requires the leader to have received.
Default: {default}

## linger.ms

The producer groups together any records that arrive in between request transmissions.
Default: 0
"""


def manual(release: str, default: str, **fields: object) -> DocumentEvent:
    return DocumentEvent.model_validate(
        {
            "document_id": f"producer-{release}",
            "media_type": "text/markdown",
            "text": MANUAL.format(default=default),
            "metadata": {
                "title": "Producer settings",
                "product": "kafka",
                "docVersion": release,
                "url": f"https://docs.example/{release}/producer",
            },
            **fields,
        }
    )


@pytest.fixture
async def pipeline(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> AsyncIterator[InProcess]:
    for variable in ("OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(str(tmp_path))
    async with in_process(load_settings()) as running:
        await running.ingest([manual("2.8", "1"), manual("3.0", "all")])
        yield running


async def test_a_question_about_a_release_is_answered_from_its_pages(pipeline: InProcess) -> None:
    for release, default in (("2.8", "1"), ("3.0", "all")):
        answer = await pipeline.client.ask(f"What is the default of acks in Kafka {release}?")
        assert answer.status is AnswerStatus.ANSWERED
        assert f"Default: {default} [" in answer.text
        assert {c.metadata.doc_version for c in answer.citations} == {release}
        (version,) = {c.version for c in answer.citations}
        assert version is not None
        assert (version.requested, version.exact) == ((release,), True)
        assert [timing.stage for timing in answer.timings] == [
            "route",
            "retrieve",
            "rerank",
            "answer",
        ]
        assert answer.model == "extractive"


async def test_a_release_that_is_not_indexed_is_answered_from_its_neighbours(
    pipeline: InProcess,
) -> None:
    answer = await pipeline.client.ask("What is the default of acks in Kafka 2.9?")
    relations = {(c.version.evidence, c.version.exact) for c in answer.citations if c.version}
    assert relations <= {("2.8", False), ("3.0", False)}
    assert relations


async def test_deltas_come_before_the_answer_and_make_up_its_text(pipeline: InProcess) -> None:
    items = [item async for item in pipeline.client.stream("What is linger.ms in Kafka 3.0?")]
    *deltas, answer = items
    assert isinstance(answer, Answer)
    assert deltas
    pieces = [delta for delta in deltas if isinstance(delta, AnswerDelta)]
    assert [delta.seq for delta in pieces] == list(range(len(deltas)))
    assert {delta.attempt for delta in pieces} == {answer.attempt}
    assert "".join(delta.text for delta in pieces).strip() == answer.text


async def test_the_same_question_comes_from_the_cache_until_the_corpus_changes(
    pipeline: InProcess,
) -> None:
    question = "What is the default of acks in Kafka 3.0?"
    first = await pipeline.client.ask(question)
    second = await pipeline.client.ask(question.upper())
    assert (first.cache, second.cache) == (None, CacheHit.EXACT)
    assert second.text == first.text
    assert second.query_id != first.query_id
    assert (await pipeline.client.ask(question, cache="bypass")).cache is None
    await pipeline.ingest([manual("3.1", "all")])
    assert (await pipeline.client.ask(question)).cache is None


async def test_another_tenant_sees_nothing(pipeline: InProcess) -> None:
    answer = await pipeline.client.ask("What is the default of acks?", tenant="other")
    assert answer.status is AnswerStatus.NO_CONTEXT
    assert answer.citations == ()


async def test_private_documents_are_for_their_readers_and_never_shared(
    pipeline: InProcess,
) -> None:
    secret = DocumentEvent(
        document_id="secret",
        text="The launch code of the rocket is 4711.",
        access=("ann",),
    )
    await pipeline.ingest([secret])
    question = "What is the launch code of the rocket?"
    theirs = await pipeline.client.ask(question, user_id="ann")
    assert "4711" in theirs.text
    assert [c.document_id for c in theirs.citations] == ["secret"]
    for other in ({"user_id": "bob"}, {}):
        answer = await pipeline.client.ask(question, **other)
        assert "4711" not in answer.text
        assert all(c.document_id != "secret" for c in answer.citations)
    assert (await pipeline.client.ask(question, user_id="ann")).cache is CacheHit.EXACT


async def test_documents_are_removed(pipeline: InProcess) -> None:
    gone = [
        DocumentEvent(document_id=f"producer-{release}", action=DocumentAction.DELETE)
        for release in ("2.8", "3.0")
    ]
    await pipeline.ingest(gone)
    answer = await pipeline.client.ask("What is the default of acks?")
    assert answer.status is AnswerStatus.NO_CONTEXT


async def test_a_changed_document_replaces_its_old_text(pipeline: InProcess) -> None:
    await pipeline.ingest([manual("2.8", "7")])
    answer = await pipeline.client.ask("What is the default of acks in Kafka 2.8?")
    assert "Default: 7 [" in answer.text


async def test_what_is_not_accepted_is_told(pipeline: InProcess) -> None:
    with pytest.raises(QueryRejected, match="no such route"):
        await pipeline.client.ask("Anything?", route="WEATHER")
    with pytest.raises(QueryRejected, match=r"filters\.tenant"):
        await pipeline.client.ask("Anything?", filters={"tenant": "other"})


async def test_cancelling_the_question_cancels_the_query(pipeline: InProcess) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pipeline.client.ask("What is acks?", query_id="impatient"), 0)
    # The outcome is decided all the same, once: answered or cancelled.
    answer = await pipeline.client.ask("What is the default of acks?", query_id="patient")
    assert answer.status is AnswerStatus.ANSWERED


async def test_a_conversation_is_remembered(pipeline: InProcess) -> None:
    await pipeline.client.ask("What is acks in Kafka 3.0?", conversation_id="c", query_id="one")
    first = await pipeline.client.ask("And linger.ms?", conversation_id="c", query_id="two")
    again = await pipeline.client.ask("And linger.ms?", conversation_id="other", query_id="three")
    assert first.cache is None
    assert again.cache is None  # another history is another question


async def test_a_chat_model_routes_reranks_and_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    async with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        server.reply("It is all[1][9].", when=lambda call: not call.wants_json)
        async with in_process(load_settings()) as running:
            await running.ingest([manual("2.8", "1"), manual("3.0", "all")])
            items = [i async for i in running.client.stream("What is acks in Kafka 3.0?")]
        answer = items[-1]
        assert isinstance(answer, Answer)
        assert answer.model == "local"  # the one that the server lists
        assert answer.status is AnswerStatus.ANSWERED
        assert answer.text == "It is all[1]."
        assert [c.document_id for c in answer.citations] == ["producer-3.0"]
        assert len(items) > 1
        assert answer.usage is not None
        wanted_json = [call for call in server.calls_of("chat") if call.wants_json]
        assert len(wanted_json) == 2  # intent, order
