"""What must hold after any fault, and what the run cost.

``complaints`` is all that decides whether a scenario passed. It is a plain function of what was
observed, so that a test can feed it each violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

__all__ = ["Observation", "Origin", "Outcome", "Seen", "complaints", "duplicates", "statuses"]

#: Complaints of a kind that are told one by one.
_TOLD = 3

Origin = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """A record on the wire. ``headers`` in their order; ``timestamp``: the broker's, in seconds."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: float = 0.0

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, b"").decode(errors="replace")

    @property
    def subject(self) -> str:
        return self.header("ce_subject")

    @property
    def identity(self) -> tuple[object, ...]:
        """What all copies of an outcome have to share."""
        return self.key, self.value, self.header("ce_id"), self.header("ce_time"), self.headers

    @property
    def origin(self) -> Origin:
        """Where a dead letter comes from: topic, partition, offset."""
        told = (self.header(f"__connect.errors.{n}") for n in ("topic", "partition", "offset"))
        topic, partition, offset = told
        return topic, int(partition or -1), int(offset or -1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row of the ledger."""

    query_id: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that was seen when a run was over.

    ``accepted``: query ids that had to be answered; ``records``: by topic, without the poison;
    ``history``: query id of each row; ``lag``: records by group; ``poison``: what was published to
    be dead-lettered, value by origin; ``left``: processes of ours that still run; ``allowed``:
    statuses that an outcome may have; ``answers``, ``dead_letter_topics``: names of topics.
    """

    accepted: frozenset[str]
    answers: str
    records: Mapping[str, Sequence[Seen]]
    history: Sequence[str]
    ledger: Sequence[Outcome]
    lag: Mapping[str, int]
    dead_letter_topics: frozenset[str] = frozenset()
    poison: Mapping[Origin, bytes | None] = field(default_factory=dict)
    left: Sequence[str] = ()
    allowed: frozenset[str] = frozenset({"answered"})


def complaints(seen: Observation) -> list[str]:
    """What does not hold; empty if all does."""
    return [*_answers(seen), *_rows(seen), *_dead_letters(seen), *_rest(seen)]


def statuses(seen: Observation) -> Counter[str]:
    """Outcomes by status, one of each query."""
    by_query = {one.subject: one for one in seen.records.get(seen.answers, ())}
    return Counter(_status(one) for one in by_query.values())


def duplicates(seen: Observation) -> dict[str, int]:
    """Records that repeat an event, by topic; topics without any are left out."""
    found = {}
    for topic, records in seen.records.items():
        if topic in seen.dead_letter_topics:
            distinct = len({one.origin for one in records})
        else:
            ids = [one.header("ce_id") for one in records if one.header("ce_id")]
            distinct = len(records) - len(ids) + len(set(ids))
        if len(records) > distinct:
            found[topic] = len(records) - distinct
    return found


def _answers(seen: Observation) -> Iterable[str]:
    copies: dict[str, list[Seen]] = defaultdict(list)
    for one in seen.records.get(seen.answers, ()):
        copies[one.subject].append(one)
    yield from _listed("without an answer", seen.accepted - copies.keys())
    yield from _listed("answered, but never accepted", copies.keys() - seen.accepted)
    different = {id for id, records in copies.items() if len({r.identity for r in records}) > 1}
    yield from _listed("with two distinct answers", different)
    for id, records in copies.items():
        if _body(records[0]).get("query_id") != id:
            yield f"the answer to {id} names {_body(records[0]).get('query_id')!r}"
    strange: dict[str, set[str]] = defaultdict(set)
    for id, records in copies.items():
        if (status := _status(records[0])) not in seen.allowed:
            strange[f"{status} ({_failure(records[0])})"].add(id)
    for status, ids in strange.items():
        yield from _listed(f"{status} instead of {'/'.join(sorted(seen.allowed))}", ids)


def _rows(seen: Observation) -> Iterable[str]:
    rows = Counter(seen.history)
    yield from _listed("without a history row", seen.accepted - rows.keys())
    yield from _listed("with a history row, but never accepted", rows.keys() - seen.accepted)
    yield from _listed("with several history rows", {id for id, n in rows.items() if n > 1})
    stored = {one.query_id: one.value for one in seen.ledger}
    yield from _listed("without an outcome in the ledger", seen.accepted - stored.keys())
    published = {one.subject: one.value for one in seen.records.get(seen.answers, ())}
    differ = {id for id in stored.keys() & published.keys() if stored[id] != published[id]}
    yield from _listed("whose answer is not the one in the ledger", differ)


def _dead_letters(seen: Observation) -> Iterable[str]:
    found: dict[Origin, set[bytes | None]] = defaultdict(set)
    why: dict[Origin, str] = {}
    for topic in seen.dead_letter_topics:
        for one in seen.records.get(topic, ()):
            found[one.origin].add(one.value)
            why[one.origin] = one.header("__connect.errors.exception.message")
    yield from _listed("poison that is not in a DLT", _places(seen.poison.keys() - found.keys()))
    innocent = {f"{_place(one)} ({why[one]})" for one in found.keys() - seen.poison.keys()}
    yield from _listed("in a DLT, but no poison", innocent)
    known = found.keys() & seen.poison.keys()
    altered = {one for one in known if found[one] != {seen.poison[one]}}
    yield from _listed("altered in its DLT", _places(altered))


def _rest(seen: Observation) -> Iterable[str]:
    for group, lag in seen.lag.items():
        if lag:
            yield f"group {group} has a lag of {lag}"
    yield from _listed("still running", set(seen.left))


def _listed(what: str, ids: Iterable[str]) -> Iterable[str]:
    names = sorted(ids)
    if names:
        more = f", … ({len(names)} in all)" if len(names) > _TOLD else ""
        yield f"{what}: {', '.join(names[:_TOLD])}{more}"


def _places(origins: Iterable[Origin]) -> set[str]:
    return {_place(origin) for origin in origins}


def _place(origin: Origin) -> str:
    topic, partition, offset = origin
    return f"{topic}[{partition}]@{offset}"


def _body(record: Seen) -> dict[str, Any]:
    try:
        return dict(orjson.loads(record.value or b""))
    except (orjson.JSONDecodeError, TypeError, ValueError):
        return {}


def _status(record: Seen) -> str:
    return str(_body(record).get("status"))


def _failure(record: Seen) -> str:
    failure = _body(record).get("failure") or {}
    return f"{failure.get('stage')}: {failure.get('message')}"
