"""Dead letters and stored events, published again over Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest

from ragstream.devstack.state import Endpoints
from ragstream.testing import OpenAIServer
from tests.support.corpus import DOCUMENTS
from tests.support.deployment import deployed
from tests.support.topiclog import headers

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

ACKS = "What is the default of acks in Kafka 3.7?"


async def test_dead_letters(stack: Endpoints, variables: dict[str, str], tmp_path: Path) -> None:
    support = {"query_id": "early", "text": ACKS, "route": "SUPPORT"}
    traced = (("traceparent", b"00-1-2-01"),)
    async with deployed(stack, tmp_path, **variables) as site:
        dlt = site.topics.dlt(site.topics.queries)
        assert (await site.run("dlt", "list")).code == 5
        async with site.worker():
            await site.index(*DOCUMENTS)
            await site.publish(site.topics.queries, b"\x00rubbish")
            await site.publish(site.topics.queries, support, key=b"mine", headers=traced)
            await site.log.until(lambda: len(site.log.of(dlt)) == 2)
            await site.caught_up()

        listed = await site.run("dlt", "list", "--json")
        letters = [json.loads(line) for line in listed.out.splitlines()]
        assert {letter["query_id"] for letter in letters} == {None, "early"}
        assert {letter["error"] for letter in letters} == {"InvalidEvent"}
        (letter,) = (one for one in letters if one["query_id"] == "early")
        assert (letter["topic"], letter["stage"]) == (site.topics.queries, "route")
        assert "no such route" in letter["message"]
        shown = await site.run("dlt", "show", letter["place"])
        assert "traceparent 00-1-2-01" in shown.out
        assert f"__connect.errors.topic {site.topics.queries}" in shown.out
        assert "SUPPORT" in shown.out
        assert (await site.run("dlt", "list", "--topic", "documents")).code == 5
        assert (await site.run("dlt", "list", "--until", "1h")).code == 5
        refused = await site.run("dlt", "replay")
        assert refused.code == 2
        assert "--all" in refused.err

        # The route exists now: the query is answered, once, however often it is replayed.
        route = {"description": "Support", "collections": ["docs"]}
        async with site.worker(RAGSTREAM_ROUTES__SUPPORT=json.dumps(route)):
            for outcome in ("1 published, 0 had been before", "0 published, 1 had been before"):
                replayed = await site.run("dlt", "replay", "--query", "early")
                assert (replayed.code, replayed.out.strip()) == (0, outcome)
            answer = await site.log.answer("early")
            assert (answer["status"], answer["generation"]) == ("answered", 1)
            # What can't be read fails again, one attempt further, and says so.
            await site.run("dlt", "replay", "--all")
            await site.log.until(lambda: len(site.log.of(dlt)) == 3)
            await site.caught_up()
        again = headers(site.log.of(dlt)[-1])
        assert site.log.of(dlt)[-1].value == b"\x00rubbish"
        assert again["ragstream-replay-attempt"] == b"1"
        repeated = [one for one in site.log.of(site.topics.queries) if one.key == b"mine"]
        assert len(repeated) == 2
        assert {one.value for one in repeated} == {orjson.dumps(support)}
        assert headers(repeated[-1])["traceparent"] == b"00-1-2-01"
        assert len(site.log.answers("early")) == 1


async def test_stored_events(
    stack: Endpoints, model: OpenAIServer, variables: dict[str, str], tmp_path: Path
) -> None:
    queries = [f"q{number}" for number in range(5)]
    async with deployed(stack, tmp_path, **variables) as site:
        async with site.worker():
            await site.index(*DOCUMENTS)
            for query_id in queries:
                await site.ask(query_id, f"{ACKS} ({query_id})")
            await site.log.until(lambda: all(map(site.log.answers, queries)))
            await site.caught_up()

            # In a shadow another model answers, and nobody else hears of it.
            model.reply(
                "Something else. [1]", when=lambda call: not call.wants_json and "q3" in call.text
            )
            shadow = f"{site.topics.prefix}-shadow"
            arguments = ("replay", "--from-stage", "retrieved", "--since", "1h")
            done = await site.run(*arguments, "--shadow", shadow)
            assert done.code == 0, done.err
            assert "q3  answered  other text" in done.out
            assert {"4 same text", "1 other text"} <= set(done.out.splitlines())
            assert [len(site.log.answers(query_id)) for query_id in queries] == [1] * 5
            rows = await site.database.fetch("SELECT generation FROM answers")
            assert [row["generation"] for row in rows] == [0] * 5
            repeated = await site.run(*arguments, "--shadow", shadow)
            assert "0 published, 5 had been before" in repeated.err

            # Published, the workers answer anew: a further generation, once.
            for outcome in ("1 published, 0 had been before", "0 published, 1 had been before"):
                published = await site.run(*arguments, "--publish", "--query", "q3")
                assert (published.code, published.out.strip()) == (0, outcome)
            await site.log.until(lambda: len(site.log.answers("q3")) == 2)
            await site.caught_up()
        assert len(site.log.answers("q3")) == 2
        renewed = await site.log.answer("q3")
        assert (renewed["generation"], renewed["text"]) == (1, "Something else. [1]")
        rows = await site.database.fetch("SELECT query_id, generation FROM answers")
        assert {row["query_id"]: row["generation"] for row in rows}["q3"] == 1
        assert len(rows) == 5
