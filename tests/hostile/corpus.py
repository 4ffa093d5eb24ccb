"""All cases, and what has to be seen of each on the topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson

from ragstream.delivery.deadletter import DEAD_LETTER_PREFIX, LARGEST_KEY
from ragstream.domain.records import Headers
from ragstream.domain.topics import Topics
from tests.hostile.case import Case
from tests.hostile.envelopes import ENVELOPES
from tests.hostile.fields import FIELDS
from tests.hostile.others import OTHERS
from tests.hostile.values import VALUES

__all__ = ["CASES", "REPLY_PREFIX", "Place", "Seen", "check", "count", "topic_of", "value_of"]

CASES: tuple[Case, ...] = (*VALUES, *ENVELOPES, *FIELDS, *OTHERS)
REPLY_PREFIX = "replies."


class Place(NamedTuple):
    """Where the record of a case stands."""

    topic: str
    partition: int
    offset: int


class Record(Protocol):
    """What records of both buses have."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


def topic_of(case: Case, topics: Topics) -> str:
    return topics.named(case.topic)


def value_of(case: Case, topics: Topics) -> bytes | None:
    """The value; the prefix of our topics goes where a case names it."""
    return case.value and case.value.replace(b"{prefix}", topics.prefix.encode())


def count() -> Counter[str]:
    """Cases by outcome."""
    return Counter(case.outcome for case in CASES)


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything on the topics. ``of``: the records of a topic."""

    topics: Topics
    of: Callable[[str], Sequence[Record]]

    def letters(self, place: Place) -> list[Record]:
        found = self.of(self.topics.dlt(place.topic)) if "control" not in place.topic else []
        return [record for record in found if _place(record) == place]

    def rejections(self, place: Place) -> list[dict[str, Any]]:
        bodies = (orjson.loads(record.value or b"") for record in self.of(self.topics.rejections))
        return [b for b in bodies if (b["topic"], b["partition"], b["offset"]) == place]

    def subject(self, topic: str, id: str) -> list[Record]:
        return [r for r in self.of(topic) if dict(r.headers).get("ce_subject") == id.encode()]


def check(case: Case, place: Place, seen: Seen) -> None:
    """Whether the case came out as it has to."""
    letters, rejections = seen.letters(place), seen.rejections(place)
    if case.outcome in ("accepted", "ignored"):
        assert [told(letter)["exception.message"] for letter in letters] == []
        assert rejections == []
        if case.outcome == "accepted" and case.id is not None:
            _check_accepted(case, seen, case.id)
        return
    (letter,) = letters
    _check_letter(case, letter, value_of(case, seen.topics))
    if case.outcome == "dlt":
        assert rejections == []
        return
    (rejection,) = rejections
    assert rejection.get("query_id") == case.id
    assert rejection.get("tenant") == case.tenant
    assert rejection["code"] == case.code
    assert rejection["message"] == told(letter)["exception.message"]
    if case.field is not None:
        assert rejection["field"].startswith(case.field)


def told(letter: Record) -> dict[str, str]:
    """What a dead letter says of its error."""
    return {
        name.removeprefix(DEAD_LETTER_PREFIX): content.decode()
        for name, content in letter.headers
        if name.startswith(DEAD_LETTER_PREFIX)
    }


def _check_accepted(case: Case, seen: Seen, id: str) -> None:
    if case.topic == "documents":
        assert seen.subject(seen.topics.index_changes, id)
        return
    answers = {record.value for record in seen.subject(seen.topics.answers, id)}
    (answer,) = (orjson.loads(value or b"") for value in answers)
    assert answer["status"] == (case.status or answer["status"])
    if answer["status"] == "failed":
        assert answer["failure"]["code"] in ("deadline_exceeded", "permanent"), answer["failure"]
    if case.forwarded or case.carried:
        (routed,) = seen.subject(seen.topics.routed, id)
        query = orjson.loads(routed.value or b"")["query"]
        assert {name: query[name] for name in case.forwarded} == case.forwarded
        assert [header for header in routed.headers if header in case.carried] == [*case.carried]


def _check_letter(case: Case, letter: Record, value: bytes | None) -> None:
    facts = told(letter)
    message = facts["exception.message"]
    if case.field is not None:
        assert message.startswith(case.field)
    assert case.says in message
    assert message.isprintable()
    assert len(message) < 2500
    assert facts["exception.code"] == case.code
    assert facts["exception.class.name"] == "ragstream.domain.errors.InvalidEvent"
    assert facts["stage"] == ("ingest" if case.topic == "documents" else "route")
    assert letter.value == value
    assert letter.key == case.key or len(case.key or b"") > LARGEST_KEY
    own = [(n, v) for n, v in case.headers if not n.startswith(DEAD_LETTER_PREFIX)]
    assert [*letter.headers][: len(own)] == own


def _place(letter: Record) -> Place:
    facts = told(letter)
    return Place(facts["topic"], int(facts["partition"]), int(facts["offset"]))
