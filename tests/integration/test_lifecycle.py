"""Workers that come and go, and a dependency that does: nothing is lost, nothing is told twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiokafka import ConsumerRecord

from ragstream.devstack.state import Endpoints
from ragstream.testing import OpenAIServer
from tests.support.corpus import DOCUMENTS
from tests.support.deployment import Worker, deployed
from tests.support.topiclog import body
from tests.support.vectors import LocalVectors, start

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

ACKS = "What is the default of acks in Kafka 3.7?"


def identity(record: ConsumerRecord) -> tuple[object, ...]:
    return record.key, record.value, record.headers


ONE_FOR_ALL = ((),)
TWO_THAT_SHARE = (("route", "retrieve"), ("rerank", "answer", "ingest", "history"))


@pytest.mark.parametrize(
    ("signum", "code", "successors"),
    [(signal.SIGTERM, 0, TWO_THAT_SHARE), (signal.SIGKILL, -9, ONE_FOR_ALL)],
    ids=["SIGTERM", "SIGKILL"],
)
async def test_what_a_worker_leaves_others_answer(
    signum: signal.Signals,
    code: int,
    successors: tuple[tuple[str, ...], ...],
    stack: Endpoints,
    model: OpenAIServer,
    variables: dict[str, str],
    tmp_path: Path,
) -> None:
    hanging = {
        f"slow-{n}": f"Slowly, please ({n}): what is the default of acks?" for n in range(12)
    }
    swift = {f"swift-{n}": f"Swiftly ({n}): what is the default of acks?" for n in range(24)}
    everything = hanging | swift
    model.hang(when=lambda call: not call.wants_json and "Slowly" in call.text, times=12)
    async with deployed(stack, tmp_path, **variables) as site:
        async with site.worker() as worker:
            await site.index(*DOCUMENTS)
            for query_id, text in everything.items():
                await site.ask(query_id, text)
            await site.log.until(lambda: all(map(site.log.answers, swift)))
            while len(written(model, hanging)) < len(hanging):
                await model.next_call()
            assert not any(map(site.log.answers, hanging))
            assert await worker.stop(signum) == code
        async with AsyncExitStack() as running:
            await asyncio.gather(
                *(running.enter_async_context(site.worker(*stages)) for stages in successors)
            )
            await site.log.until(lambda: all(map(site.log.answers, everything)))
            await site.caught_up()

        copies = [site.log.answers(query_id) for query_id in everything]
        assert all(len({identity(record) for record in records}) == 1 for records in copies)
        assert all(body(records[0])["status"] == "answered" for records in copies)
        assert Counter(written(model, everything)) == Counter(
            {text: 2 if query_id in hanging else 1 for query_id, text in everything.items()}
        )
        rows = await site.database.fetch("SELECT query_id FROM answers")
        assert sorted(row["query_id"] for row in rows) == sorted(everything)


def written(model: OpenAIServer, queries: dict[str, str]) -> list[str]:
    """The questions among these that the model was asked to answer, with repetitions."""
    asked = [call.user for call in model.calls_of("chat") if not call.wants_json]
    return [text for text in queries.values() for call in asked if text in call]


async def test_groups_without_offsets(
    stack: Endpoints, variables: dict[str, str], tmp_path: Path
) -> None:
    """A worker never starts with the whole history by accident."""
    async with deployed(stack, tmp_path, initialised=False, **variables) as site:
        await site.ask("older", ACKS)
        refused = await site.run("worker")
        assert refused.code == 2
        assert f"no committed offsets for {site.topics.group('answer')}" in refused.err
        assert "ragstream topics apply" in refused.err
        assert "--from" in refused.err
        async with site.worker("--from", "latest"):
            await site.index(*DOCUMENTS)
            await site.ask("newer", ACKS)
            assert (await site.log.answer("newer"))["status"] == "answered"
            await site.caught_up()
            assert site.log.answers("older") == []
        assert site.log.of(site.topics.routed, "older") == []


async def test_queries_wait_for_a_dependency_until_their_deadline(
    stack: Endpoints, variables: dict[str, str], tmp_path: Path
) -> None:
    vectors = LocalVectors(tmp_path / "vectors")
    try:
        async with (
            deployed(stack, tmp_path, **variables, RAGSTREAM_QDRANT__URL=vectors.url) as site,
            site.worker() as worker,
        ):
            await site.index(*DOCUMENTS)
            assert await asyncio.to_thread(vectors.stop) == 0
            soon = datetime.now(UTC) + timedelta(seconds=2)
            await site.ask("waits", ACKS)
            await site.ask("hurries", ACKS, deadline=soon.isoformat())
            failed = await site.log.answer("hurries")
            assert failed["status"] == "failed"
            assert failed["failure"]["code"] == "deadline_exceeded"
            assert failed["failure"]["stage"] == "retrieve"
            assert failed["failure"]["retryable"] is True
            assert "qdrant" in failed["failure"]["message"]
            await paused(worker, "retrieve", "qdrant")
            assert site.log.answers("waits") == []

            port = int(vectors.url.rpartition(":")[2])
            vectors.process = start(tmp_path / "vectors", port)
            assert "The default of acks is all." in (await site.log.answer("waits"))["text"]
            await worker.ready()
    finally:
        if vectors.process.poll() is None:
            vectors.kill()


async def paused(worker: Worker, stage: str, reason: str) -> None:
    health = await worker.health()
    assert health["code"] == 503
    assert reason in health["stages"][stage]["paused"]
