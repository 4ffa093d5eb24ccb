"""Which queries are accepted, and until when they are worked on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.domain.errors import InvalidEvent
from ragstream.domain.events import Job, Query
from ragstream.stages.route import Acceptance
from tests.support.stages import NOW

RULES = Acceptance(
    frozenset({"DOCS", "NEWS"}),
    default_deadline=120,
    longest_deadline=600,
    reply_prefix="replies.",
)


def accept(rules: Acceptance = RULES, at: datetime = NOW, **fields: object) -> Job:
    query = Query.model_validate({"query_id": "q", "text": "What?", **fields})
    return rules.accept(query, at=at, generation=0, fingerprint="f")


def test_a_query_becomes_a_job() -> None:
    job = RULES.accept(Query(query_id="q", text="What?"), at=NOW, generation=3, fingerprint="f")
    assert (job.query_id, job.generation, job.fingerprint) == ("q", 3, "f")
    assert (job.accepted_at, job.timings, job.degraded) == (NOW, (), ())


@pytest.mark.parametrize(
    ("wanted", "seconds"),
    [
        (None, 120),
        (NOW + timedelta(seconds=30), 30),
        (NOW + timedelta(seconds=300), 300),
        (NOW + timedelta(days=2), 600),
        (NOW - timedelta(days=2), 0),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), 0),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))), 600),
    ],
)
def test_the_deadline_is_what_was_asked_for_within_bounds(
    wanted: datetime | None, seconds: int
) -> None:
    job = accept(deadline=wanted)
    assert job.deadline == NOW + timedelta(seconds=seconds)
    assert job.deadline.tzinfo is UTC


@given(st.integers(-10_000, 10_000), st.integers(-12, 12))
def test_a_deadline_never_lies_outside_its_bounds(seconds: int, zone: int) -> None:
    wanted = (NOW + timedelta(seconds=seconds)).astimezone(timezone(timedelta(hours=zone)))
    job = accept(deadline=wanted)
    assert NOW <= job.deadline <= NOW + timedelta(seconds=600)
    assert job.deadline <= max(wanted, NOW)
    assert accept(deadline=wanted) == job  # delivered again, it is the same


def test_a_route_has_to_exist() -> None:
    assert accept(route="NEWS").query.route == "NEWS"
    with pytest.raises(InvalidEvent, match=r"no such route: 'WEATHER' .*DOCS, NEWS") as caught:
        accept(route="WEATHER")
    assert caught.value.field == "route"


@pytest.mark.parametrize("name", ["tenant", "access", "text", "documentId", "document_id"])
def test_the_scope_is_not_filtered_on(name: str) -> None:
    with pytest.raises(InvalidEvent, match="may not be filtered on") as caught:
        accept(filters={"product": "kafka", name: "x"})
    assert caught.value.field == f"filters.{name}"


@pytest.mark.parametrize(
    ("rules", "topic", "accepted"),
    [
        (RULES, "replies.ann", True),
        (RULES, "other.ann", False),
        (RULES, "ragstream.answers.v1", False),
        (Acceptance(frozenset(), reply_prefix=""), "anything", True),
        (Acceptance(frozenset(), reply_prefix=""), "ragstream.queries.v1", False),
        (Acceptance(frozenset(), reply_prefix="", own_prefix="mine."), "mine.queries.v1", False),
        (Acceptance(frozenset()), "replies.ann", False),
    ],
)
def test_answers_go_only_to_topics_that_are_allowed(
    rules: Acceptance, topic: str, accepted: bool
) -> None:
    if accepted:
        assert accept(rules, reply_to=topic).query.reply_to == topic
    else:
        with pytest.raises(InvalidEvent) as caught:
            accept(rules, reply_to=topic)
        assert caught.value.field == "reply_to"
