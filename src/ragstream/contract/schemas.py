"""JSON Schemas (2020-12) of the events, and what makes a change of one a breaking change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstream.domain.events import EVENT_TYPES
from ragstream.domain.topics import TOPIC_KINDS

__all__ = ["breaking_changes", "schema", "schemas"]

Schema = Mapping[str, Any]

_PURPOSES = {kind.event: kind.purpose for kind in TOPIC_KINDS}


def schema(event: str) -> dict[str, Any]:
    """Schema of an event as it is on the wire."""
    made = EVENT_TYPES[event].model_json_schema(by_alias=True, mode="validation")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:ragstream:event:{event}:v1",
        "title": event,
        "description": _PURPOSES[event],
    }
    return {**head, **{name: value for name, value in made.items() if name not in head}}


def schemas() -> dict[str, dict[str, Any]]:
    """All of them, by event."""
    return {event: schema(event) for event in EVENT_TYPES}


def breaking_changes(old: Schema, new: Schema, *, written: bool = False) -> list[str]:
    """What breaks those who rely on ``old``, each with the path of the field.

    Fields that are gone or newly required; types, enumerations and limits that are narrower than
    they were. ``written``: others read what we write by this schema, so what is wider, or may
    be missing now, breaks them too. New optional fields never break anybody.
    """
    problems = list(_gone(_Node(old, old), _Node(new, new), ""))
    problems += _Comparison("is newly required", "narrower").refused(
        _Node(old, old), _Node(new, new), ""
    )
    if written:
        problems += _Comparison("may be missing now", "wider").refused(
            _Node(new, new), _Node(old, old), ""
        )
    return list(dict.fromkeys(problems))


class _Node:
    """A schema and the document that its references point into."""

    def __init__(self, body: Schema | bool, root: Schema) -> None:
        self.root = root
        self.body: Schema = {} if isinstance(body, bool) else body
        while "$ref" in self.body:
            target: Any = root
            for part in self.body["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            self.body = {**target, **{k: v for k, v in self.body.items() if k != "$ref"}}

    def inner(self, body: Schema | bool) -> _Node:
        return _Node(body, self.root)

    def branches(self) -> list[_Node]:
        """The alternatives, each of one type."""
        choices = self.body.get("anyOf") or self.body.get("oneOf")
        if choices:
            return [branch for choice in choices for branch in self.inner(choice).branches()]
        types = self.body.get("type")
        if isinstance(types, list):
            return [self.inner({**self.body, "type": one}) for one in types]
        return [self]

    @property
    def type(self) -> str | None:
        found = self.body.get("type")
        return found if isinstance(found, str) else None

    @property
    def values(self) -> list[Any] | None:
        """The only values allowed, or None."""
        if "const" in self.body:
            return [self.body["const"]]
        return self.body.get("enum")

    @property
    def properties(self) -> dict[str, _Node]:
        given = self.body.get("properties", {})
        return {name: self.inner(body) for name, body in given.items()}


def _gone(old: _Node, new: _Node, path: str) -> Iterator[str]:
    """Fields of ``old`` that ``new`` does not have."""
    for before in old.branches():
        for after in (one for one in new.branches() if one.type == before.type):
            for name, field in before.properties.items():
                where = f"{path}.{name}" if path else name
                if name not in after.properties:
                    yield f"{where}: is gone"
                else:
                    yield from _gone(field, after.properties[name], where)
            if "items" in before.body and "items" in after.body:
                yield from _gone(
                    before.inner(before.body["items"]),
                    after.inner(after.body["items"]),
                    f"{path}[]",
                )


_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_EXACT = ("pattern", "format")


class _Comparison:
    """Tells where a schema refuses what another one allows.

    ``missing`` words a field that is required by the one only, ``change`` how it compares.
    """

    def __init__(self, missing: str, change: str) -> None:
        self._missing = missing
        self._change = change

    def refused(self, given: _Node, taker: _Node, path: str) -> Iterator[str]:
        """What ``given`` allows and ``taker`` does not."""
        takers = taker.branches()
        for branch in given.branches():
            same = [one for one in takers if _takes_type(one, branch)]
            if not same:
                yield f"{path or 'value'}: its type is {self._change} ({branch.type})"
                continue
            found = [list(self._within(branch, one, path)) for one in same]
            yield from min(found, key=len)

    def _within(self, given: _Node, taker: _Node, path: str) -> Iterator[str]:
        where = path or "value"
        if taker.values is not None:
            allowed = given.values
            lost = [one for one in allowed if one not in taker.values] if allowed else ["any"]
            if lost:
                yield f"{where}: its values are {self._change} ({', '.join(map(str, lost))})"
        for limit in (*_AT_LEAST, *_AT_MOST):
            bound, before = taker.body.get(limit), given.body.get(limit)
            if bound is None:
                continue
            tighter = before is None or (before < bound if limit in _AT_LEAST else before > bound)
            if tighter:
                yield f"{where}: its {limit} is {self._change} ({before} and {bound})"
        for rule in _EXACT:
            if rule in taker.body and taker.body[rule] != given.body.get(rule):
                yield f"{where}: its {rule} is {self._change}"
        for name in taker.body.get("required", ()):
            if name not in given.body.get("required", ()):
                yield f"{path}.{name}: {self._missing}" if path else f"{name}: {self._missing}"
        closed = taker.body.get("additionalProperties") is False
        if closed and given.body.get("additionalProperties") is not False:
            yield f"{where}: further fields are {self._change}"
        for name, field in given.properties.items():
            if name in taker.properties:
                inner = f"{path}.{name}" if path else name
                yield from self.refused(field, taker.properties[name], inner)
        for keyword in ("items", "additionalProperties"):
            ours, theirs = given.body.get(keyword), taker.body.get(keyword)
            if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
                yield from self.refused(given.inner(ours), taker.inner(theirs), f"{path}[]")


def _takes_type(taker: _Node, given: _Node) -> bool:
    if taker.type == "number" and given.type == "integer":
        return True
    return taker.type in (None, given.type)
