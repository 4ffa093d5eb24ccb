"""What the key of a cached answer depends on, and what it does not."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.domain.events import Query, Role, Turn
from ragstream.stages.cachekey import is_relative_to_now, normalise, own_key, shared_key
from tests.support.stages import NOW

QUESTION: dict[str, object] = {"query_id": "q", "text": "What is acks?", "tenant": "acme"}
SETTING: dict[str, object] = {
    "history": (),
    "corpus_generation": 3,
    "routing_digest": "settings",
    "model": "extractive",
    "prompt_version": "1",
    "asked_at": NOW,
}


def key(**changes: object) -> str:
    setting = {name: changes.pop(name, value) for name, value in SETTING.items()}
    if "said" in changes:
        setting["history"] = changes.pop("said")
    return shared_key(Query.model_validate({**QUESTION, **changes}), **setting)  # type: ignore[arg-type]


def user(text: str) -> Turn:
    return Turn(role=Role.USER, text=text)


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "other"},
        {"text": "What is linger.ms?"},
        {"text": "What is acks"},
        {"said": (user("Of Kafka 3.7."),)},
        {"filters": {"product": "kafka"}},
        {"top_k": 3},
        {"route": "DOCS"},
        {"routing_digest": "other settings"},
        {"corpus_generation": 4},
        {"model": "gpt"},
        {"prompt_version": "2"},
    ],
    ids=lambda change: "-".join(change),
)
def test_what_changes_the_answer_changes_the_key(change: dict[str, object]) -> None:
    assert key(**change) != key()


@pytest.mark.parametrize(
    "change",
    [
        {"query_id": "another"},
        {"user_id": "ann"},
        {"conversation_id": "c", "previous_query_id": "p"},
        {"deadline": NOW + timedelta(seconds=5)},
        {"stream": False},
        {"cache": "refresh"},
        {"reply_to": "replies"},
        {"asked_at": NOW + timedelta(days=3)},
        {"text": "  what   IS\n acks? "},
        {"text": "Ｗｈａｔ is acks?"},
        {"history": ()},
    ],
    ids=lambda change: "-".join(change),
)
def test_what_does_not_change_the_answer_does_not_change_the_key(
    change: dict[str, object],
) -> None:
    assert key(**change) == key()


def test_filters_are_told_apart_by_name_value_and_type() -> None:
    filters: list[dict[str, object]] = [
        {},
        {"year": 2024},
        {"year": "2024"},
        {"year": [2024]},
        {"year": {"gte": 2024}},
        {"year": {"gt": 2024}},
        {"month": 2024},
        {"flag": True},
        {"flag": 1},
    ]
    assert len({key(filters=one) for one in filters}) == len(filters)
    assert key(filters={"a": 1, "b": 2}) == key(filters={"b": 2, "a": 1})


def test_history_is_told_apart_by_speaker_order_and_boundaries() -> None:
    said = [
        (user("ab"),),
        (user("a"), user("b")),
        (user("b"), user("a")),
        (Turn(role=Role.ASSISTANT, text="ab"),),
    ]
    assert len({key(said=one) for one in said}) == len(said)


def test_a_question_about_now_is_another_one_every_day() -> None:
    def asked(at: datetime, text: str = "What is new today?") -> str:
        return key(text=text, asked_at=at)

    evening = NOW.replace(hour=23, minute=59)
    assert asked(NOW) == asked(evening)
    assert asked(NOW) != asked(evening + timedelta(minutes=1))
    elsewhere = evening.astimezone(timezone(timedelta(hours=9)))  # already the next day there
    assert asked(evening) == asked(elsewhere)
    # The same question in another spelling depends on the day as well.
    assert asked(NOW) == asked(NOW, "what is new　ＴＯＤＡＹ?")


@pytest.mark.parametrize(
    "text",
    [
        "What happened today?",
        "Who is the current maintainer?",
        "What is the latest release?",
        "What changed this week?",
        "What changed this  week?",
        "What changed this\nweek?",
        "Ｗｈａｔ　ｃｈａｎｇｅｄ　ｔｏｄａｙ？",
        "LAST NIGHT'S game",
        "What came out three days ago?",
        "Incidents of the last 24 hours",
        "Articles of the past few weeks",
        "What was fixed in the past couple of months?",
        "Is the documentation up-to-date?",
        "苹果股票最近怎么样？",
        "本周发生了什么？",
        "今月のニュース",
    ],
)
def test_questions_about_now(text: str) -> None:
    assert is_relative_to_now(text)


@pytest.mark.parametrize(
    "text",
    [
        "What is the default of acks?",
        "Which currency is used?",
        "I know it snowed in 1999.",
        "At last, how many hours are there in a day?",
        "What does retention.hours do?",
        "last_week is a variable",
        "日前",
        "明文传输是什么？",
        "上海有什么？",
        "前端是什么？",
    ],
)
def test_questions_that_time_does_not_change(text: str) -> None:
    assert not is_relative_to_now(text)


@given(st.text(max_size=40))
def test_normal_text_stays_as_it_is(text: str) -> None:
    normal = normalise(text)
    assert normalise(normal) == normal
    assert normalise(f" {text}\t") == normal


def test_a_user_has_an_entry_of_their_own() -> None:
    shared = key()
    keys = {shared, own_key(shared, "ann"), own_key(shared, "bob"), own_key(key(top_k=1), "ann")}
    assert len(keys) == 4
    assert own_key(shared, "ann") == own_key(shared, "ann")
    assert all(len(one) == 64 and int(one, 16) >= 0 for one in keys)
