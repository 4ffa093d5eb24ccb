"""What the history stage keeps of the answers."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.memory_state import MemoryHistory
from ragstream.domain.events import Answer
from ragstream.stages.history import RecordHistory
from tests.support.stages import NOW


def answer(query_id: str = "q", text: str = "yes", **fields: object) -> Answer:
    return Answer.model_validate(
        {
            "query_id": query_id,
            "conversation_id": "c",
            "question": f"What of {query_id}?",
            "status": "answered",
            "text": text,
            "accepted_at": NOW,
            "completed_at": NOW,
            **fields,
        }
    )


def failed(**fields: object) -> Answer:
    failure = {"message": "no", "code": "permanent", "retryable": False, "stage": "answer"}
    return answer(text="", status="failed", failure=failure, **fields)


async def kept(*answers: Answer, **whose: str) -> list[str]:
    """The texts of the conversation after these answers, in this order."""
    history = MemoryHistory()
    stage = RecordHistory(history)
    for one in answers:
        assert await stage(one) == ()
    turns = await history.turns(whose.get("tenant", "default"), "c", limit=99)
    return [turn.text for turn in turns if turn.role == "assistant"]


async def test_answers_become_turns_of_their_conversation() -> None:
    later = answer("b", "second", accepted_at=NOW + timedelta(seconds=1))
    assert await kept(later, answer("a", "first")) == ["first", "second"]


async def test_an_answer_that_comes_again_stands_once() -> None:
    assert await kept(answer(), answer(), answer()) == ["yes"]


@given(st.permutations([0, 1, 2, 2, 3]))
async def test_the_highest_generation_stays_in_whatever_order_they_come(order: list[int]) -> None:
    answers = [answer(text=f"generation {number}", generation=number) for number in order]
    assert await kept(*answers) == ["generation 3"]


async def test_a_later_failure_takes_the_place_of_an_answer() -> None:
    assert await kept(answer(), failed(generation=1)) == []
    assert await kept(failed(generation=1), answer()) == []
    assert await kept(failed(), answer(generation=1)) == ["yes"]


async def test_what_has_no_answer_is_no_turn_and_terminal_all_the_same() -> None:
    for one in (failed(), answer(status="cancelled", text=""), answer(status="no_context")):
        history = MemoryHistory()
        assert not await history.is_terminal("default", "q")
        await RecordHistory(history)(one)
        assert await history.is_terminal("default", "q")
        assert await history.turns("default", "c", limit=9) == ()


async def test_tenants_with_one_query_id_are_apart() -> None:
    answers = (answer(text="ours"), answer(text="theirs", tenant="acme", generation=5))
    assert await kept(*answers) == ["ours"]
    assert await kept(*answers, tenant="acme") == ["theirs"]
