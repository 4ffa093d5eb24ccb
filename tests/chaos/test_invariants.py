"""The checker itself: it must complain about each violation, and about nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.chaos.invariants import Observation, Outcome, Seen, complaints, duplicates, statuses

ANSWERS, DLT = "answers", "queries.dlt"
PLACE = ("queries", 0, 7)


def answer(query_id: str, *, time: str = "12:00", **fields: Any) -> Seen:
    body = {"query_id": query_id, "status": "answered", "text": "all", **fields}
    headers = (
        ("ce_id", f"id-of-{query_id}".encode()),
        ("ce_time", time.encode()),
        ("ce_subject", query_id.encode()),
    )
    return Seen(b"key", orjson.dumps(body), headers)


def dead(place: tuple[str, int, int] = PLACE, value: bytes | None = b"{") -> Seen:
    names = ("topic", "partition", "offset")
    headers = tuple(
        (f"__connect.errors.{name}", str(part).encode())
        for name, part in zip(names, place, strict=True)
    )
    return Seen(None, value, headers)


def observation(*answers: Seen, **changes: Any) -> Observation:
    """Of a run in which q1 and q2 were accepted and all went well, unless said otherwise."""
    published = answers or (answer("q1"), answer("q2"))
    seen = Observation(
        accepted=frozenset({"q1", "q2"}),
        answers=ANSWERS,
        records={ANSWERS: published, DLT: [dead()]},
        history=["q1", "q2"],
        ledger=[Outcome(name, answer(name).value or b"") for name in ("q1", "q2")],
        lag={"route": 0, "answer": 0},
        dead_letter_topics=frozenset({DLT}),
        poison={PLACE: b"{"},
    )
    return replace(seen, **changes)


def test_nothing_to_complain_about() -> None:
    assert complaints(observation()) == []


def test_identical_copies_are_allowed_and_counted() -> None:
    seen = observation(answer("q1"), answer("q2"), answer("q1"), answer("q1"))
    assert complaints(seen) == []
    assert duplicates(seen) == {ANSWERS: 2}
    assert statuses(seen) == {"answered": 2}


def test_a_repeated_dead_letter_is_allowed_and_counted() -> None:
    seen = observation()
    seen = replace(seen, records={**seen.records, DLT: [dead(), dead()]})
    assert complaints(seen) == []
    assert duplicates(seen) == {DLT: 1}


FAILED: dict[str, Any] = {"status": "failed", "failure": {"stage": "answer", "message": "broken"}}
VIOLATIONS = {
    "lost answer": (observation(answer("q1")), "without an answer: q2"),
    "two texts": (
        observation(answer("q1"), answer("q2"), answer("q2", text="1")),
        "with two distinct answers: q2",
    ),
    "two times": (
        observation(answer("q1"), answer("q2"), answer("q2", time="12:01")),
        "with two distinct answers: q2",
    ),
    "two ids": (
        observation(answer("q1"), answer("q2"), replace(answer("q2"), headers=())),
        "answered, but never accepted",
    ),
    "two keys": (
        observation(answer("q1"), answer("q2"), replace(answer("q2"), key=b"other")),
        "with two distinct answers: q2",
    ),
    "answer to nobody": (
        observation(answer("q1"), answer("q2"), answer("q3")),
        "answered, but never accepted: q3",
    ),
    "status": (
        observation(answer("q1"), answer("q2", **FAILED)),
        "failed (answer: broken) instead of answered: q2",
    ),
    "missing row": (observation(history=["q1"]), "without a history row: q2"),
    "two rows": (observation(history=["q1", "q2", "q2"]), "with several history rows: q2"),
    "row of nobody": (
        observation(history=["q1", "q2", "q3"]),
        "with a history row, but never accepted: q3",
    ),
    "missing outcome": (
        observation(ledger=[Outcome("q1", answer("q1").value or b"")]),
        "without an outcome in the ledger: q2",
    ),
    "another outcome": (
        observation(
            ledger=[
                Outcome("q1", answer("q1").value or b""),
                Outcome("q2", b"{}"),
            ]
        ),
        "whose answer is not the one in the ledger: q2",
    ),
    "lag": (observation(lag={"route": 0, "answer": 3}), "group answer has a lag of 3"),
    "missing dead letter": (
        observation(records={ANSWERS: (answer("q1"), answer("q2")), DLT: []}),
        "poison that is not in a DLT: queries[0]@7",
    ),
    "innocent dead letter": (observation(poison={}), "in a DLT, but no poison: queries"),
    "altered dead letter": (observation(poison={PLACE: b"["}), "altered in its DLT: queries[0]@7"),
    "orphan": (observation(left=["worker 12"]), "still running: worker 12"),
}


@pytest.mark.parametrize(("seen", "expected"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_it_complains(seen: Observation, expected: str) -> None:
    assert any(complaint.startswith(expected) for complaint in complaints(seen)), complaints(seen)


def test_many_are_summed_up() -> None:
    ids = {f"q{number}" for number in range(10)}
    (complaint,) = complaints(
        replace(
            observation(history=sorted(ids)),
            accepted=frozenset(ids),
            records={ANSWERS: [], DLT: [dead()]},
            ledger=[Outcome(id, b"") for id in ids],
        )
    )
    assert complaint == "without an answer: q0, q1, q2, … (10 in all)"
