"""A hostile record and its expected outcome."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ragstream.domain.records import Headers

__all__ = ["QUESTION", "Case", "Outcome", "asked", "raw"]

#: accepted: the query gets an answer, the document is indexed. dlt: the dead-letter topic, nobody
#: could be told. dlt+rejection: the asker is told as well. ignored: control records have neither.
Outcome = Literal["accepted", "dlt", "dlt+rejection", "ignored"]

QUESTION = "What is the default of acks in Kafka 3.0?"


@dataclass(frozen=True, slots=True)
class Case:
    """``says``: a piece of the error; ``id``: query_id (document_id) of an accepted record, or the
    one that the rejection names; ``status``: of the answer, any if None; ``forwarded``: fields of
    the query, ``carried``: headers, as they must arrive at the next stage."""

    name: str
    outcome: Outcome
    value: bytes | None
    field: str | None = None
    says: str = ""
    topic: Literal["queries", "documents", "control"] = "queries"
    key: bytes | None = b"k"
    headers: Headers = ()
    code: str = "invalid_event"
    id: str | None = None
    tenant: str | None = "default"
    status: str | None = None
    forwarded: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    carried: Headers = ()

    def __str__(self) -> str:
        return self.name

    def also(self, **changes: Any) -> Case:
        return replace(self, **changes)


def asked(
    name: str, outcome: Outcome, field: str | None = None, says: str = "", **fields: Any
) -> Case:
    """A query in plain JSON; ``fields`` are added to it, or replace its own."""
    body = {"query_id": name, "text": QUESTION, **fields}
    return Case(name, outcome, json.dumps(body).encode(), field, says, id=body["query_id"])


def raw(
    name: str, outcome: Outcome, value: bytes | None, field: str | None = None, says: str = ""
) -> Case:
    """A value as it stands; ``%b`` in it is where the name goes."""
    if value is not None:
        value = value.replace(b"%b", name.encode())
    return Case(name, outcome, value, field, says, id=None if outcome == "dlt" else name)
