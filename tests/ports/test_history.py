"""The history: in memory and in PostgreSQL."""

import asyncio

import orjson
import pytest

from ragstream.adapters.memory_state import MemoryHistory
from ragstream.adapters.postgres import PostgresHistory
from ragstream.domain.errors import PermanentError
from ragstream.domain.events import MAX_TEXT, Answer, AnswerStatus, Role
from tests.ports.answers import answer, failed


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def history(request):
    if request.param == "memory":
        return MemoryHistory()
    return PostgresHistory(request.getfixturevalue("database"))


async def said(history, *, tenant="acme", conversation="talk", limit=100, user_id="user-1"):
    turns = await history.turns(tenant, conversation, limit=limit, user_id=user_id)
    return [(turn.role, turn.text) for turn in turns]


async def test_nothing_yet(history):
    assert await said(history) == []
    assert not await history.is_terminal("acme", "q1")


async def test_turns_are_in_order_of_acceptance(history):
    for number in (2, 0, 1):
        await history.save(answer(f"q{number}", minute=number, text=f"a{number}"))
    assert await said(history) == [
        (Role.USER, "What of q0?"),
        (Role.ASSISTANT, "a0"),
        (Role.USER, "What of q1?"),
        (Role.ASSISTANT, "a1"),
        (Role.USER, "What of q2?"),
        (Role.ASSISTANT, "a2"),
    ]


async def test_of_the_same_moment_the_id_decides(history):
    for query_id in ("b", "B", "a", "_"):
        await history.save(answer(query_id))
    assert [text for role, text in await said(history) if role is Role.USER] == [
        f"What of {query_id}?" for query_id in ("B", "_", "a", "b")
    ]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 6, 7])
async def test_the_latest_turns_are_kept(history, limit):
    for number in range(3):
        await history.save(answer(f"q{number}", minute=number))
    everything = await said(history)
    assert len(everything) == 6
    assert await said(history, limit=limit) == everything[6 - min(limit, 6) :]


async def test_only_answered_queries_make_turns(history):
    await history.save(failed("q1"))
    await history.save(answer("q2", status=AnswerStatus.NO_CONTEXT))
    await history.save(answer("q3", status=AnswerStatus.CANCELLED))
    await history.save(answer("q4", text=""))
    assert await said(history) == []
    for query_id in ("q1", "q2", "q3", "q4"):
        assert await history.is_terminal("acme", query_id)


async def test_a_conversation_is_seen_by_its_tenant_and_user_only(history):
    await history.save(answer("mine", text="mine"))
    await history.save(answer("other-user", user_id="user-2", text="theirs"))
    await history.save(answer("nobody", user_id=None, text="nobody's"))
    await history.save(answer("other-tenant", tenant="b", text="b's"))
    await history.save(answer("other-talk", conversation_id="talk-2", text="elsewhere"))
    await history.save(answer("no-talk", conversation_id=None, text="alone"))

    async def answers(**options):
        return [text for role, text in await said(history, **options) if role is Role.ASSISTANT]

    assert await answers() == ["mine"]
    assert await answers(user_id="user-2") == ["theirs"]
    assert await answers(user_id=None) == ["nobody's"]
    assert await answers(tenant="b") == ["b's"]
    assert not await history.is_terminal("b", "mine")


async def test_the_highest_generation_wins(history):
    await history.save(answer(generation=1, text="one"))
    await history.save(answer(generation=0, text="zero"))
    assert (await said(history))[-1][1] == "one"
    await history.save(answer(generation=2, text="two", citations=()))
    assert (await said(history))[-1][1] == "two"
    await history.save(failed(generation=3))
    assert await said(history) == []


async def test_saving_again_changes_nothing(history):
    for _ in range(3):
        await history.save(answer())
    assert len(await said(history)) == 2


async def test_saves_at_the_same_time(history):
    generations = [5, 1, 4, 2, 3, 0, 6]
    await asyncio.gather(*(history.save(answer(generation=g, text=f"a{g}")) for g in generations))
    assert (await said(history))[-1][1] == "a6"


async def test_long_answers_are_cut_to_a_turn(history):
    await history.save(answer(text="x" * (MAX_TEXT + 1)))
    assert (await said(history))[-1][1] == "x" * MAX_TEXT


@pytest.mark.integration
async def test_everything_is_kept_and_can_be_queried(database):
    await PostgresHistory(database).save(answer())
    row = await database.run(lambda c: c.fetchrow("SELECT * FROM answers"))
    assert Answer.model_validate(orjson.loads(row["answer"])) == answer()
    assert row["accepted_at"] == answer().accepted_at
    assert (row["model"], row["route"], row["quality"]) == ("m", "DOCS", "NONE")
    [citation] = await database.run(lambda c: c.fetch("SELECT * FROM citations"))
    assert citation["document_id"] == "doc"
    assert citation["score"] == 0.75
    await PostgresHistory(database).save(failed(generation=1))
    row = await database.run(lambda c: c.fetchrow("SELECT * FROM answers"))
    assert row["failure_code"] == "permanent"
    assert await database.run(lambda c: c.fetch("SELECT * FROM citations")) == []


@pytest.mark.integration
async def test_nul_characters_do_not_lose_an_answer(database):
    history = PostgresHistory(database)
    await history.save(answer(text="a\x00b", extra={"k\x00": ["\x00", "\\u0000"]}))
    assert (await said(history))[-1][1] == "a\ufffdb"
    row = await database.run(lambda c: c.fetchrow("SELECT answer->'extra' AS extra FROM answers"))
    assert orjson.loads(row["extra"]) == {"k\ufffd": ["\ufffd", "\\u0000"]}


@pytest.mark.integration
async def test_a_value_that_no_column_holds_is_permanent(database):
    with pytest.raises(PermanentError):
        await PostgresHistory(database).save(answer(generation=2**63))
