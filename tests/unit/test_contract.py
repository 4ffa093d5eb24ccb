"""The contract: its files are those of the types, and a change that breaks v1 is told."""

from __future__ import annotations

import copy
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ragstream.contract import breaking_changes, check, freeze, schema, schemas, write
from ragstream.domain.declarations import declare
from ragstream.domain.errors import ConfigurationError
from ragstream.domain.events import EVENT_TYPES
from ragstream.domain.records import InboundRecord
from ragstream.domain.topics import Topics
from ragstream.wire import decode

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of ``topics/``."""
    shutil.copytree(ROOT / "topics", tmp_path / "topics")
    return tmp_path


def example(event: str) -> Any:
    return json.loads((ROOT / f"topics/examples/{event}.json").read_text("utf-8"))


@cache
def document() -> Any:
    return yaml.safe_load((ROOT / "topics/asyncapi.yaml").read_text("utf-8"))


def resolved(reference: str) -> Any:
    found = document()
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


class TestFiles:
    def test_they_are_those_of_the_types(self) -> None:
        assert check(ROOT) == []

    def test_writing_twice_changes_nothing(self, copied: Path) -> None:
        assert write(copied) == []

    @pytest.mark.parametrize(
        "name", ["topics.yaml", "asyncapi.yaml", "schemas/Query.json", "v1.lock.json"]
    )
    def test_a_missing_file_is_told(self, name: str, copied: Path) -> None:
        (copied / "topics" / name).unlink()
        (problem,) = check(copied)
        assert problem.startswith(f"topics/{name}: is missing")

    def test_a_difference_is_shown(self, copied: Path) -> None:
        path = copied / "topics/topics.yaml"
        path.write_text(path.read_text().replace("production: 12", "production: 13", 1))
        (problem,) = check(copied)
        assert problem.startswith("topics/topics.yaml: differs")
        assert "-    production: 13" in problem
        assert "+    production: 12" in problem
        assert write(copied) == [path]
        assert check(copied) == []

    def test_a_file_of_no_event_is_told_and_removed(self, copied: Path) -> None:
        path = copied / "topics/schemas/Gone.json"
        path.write_text("{}")
        assert check(copied) == ["topics/schemas/Gone.json: belongs to no event"]
        assert write(copied) == [path]

    def test_an_invalid_example_is_told(self, copied: Path) -> None:
        path = copied / "topics/examples/Cancel.json"
        path.write_text('{"query_id": ""}')
        (problem,) = check(copied)
        assert problem.startswith("topics/examples/Cancel.json: query_id: ")

    def test_freezing_refuses_what_breaks(self, copied: Path) -> None:
        lock = copied / "topics/v1.lock.json"
        frozen = json.loads(lock.read_text())
        frozen["events"]["Cancel"]["properties"]["reason"] = {"type": "string"}
        frozen["topics"]["ragstream.queries.v1"] = 24
        lock.write_text(json.dumps(frozen))
        expected = [
            "topic ragstream.queries.v1: has 12 partitions, not 24",
            "Cancel.reason: is gone",
        ]
        assert check(copied) == [f"breaks v1: {change}" for change in expected]
        with pytest.raises(ConfigurationError) as caught:
            freeze(copied)
        assert all(change in str(caught.value) for change in expected)
        assert freeze(copied, force=True) == expected
        assert check(copied) == []


@pytest.mark.parametrize("event", EVENT_TYPES)
class TestSchemas:
    def test_valid_2020_12(self, event: str) -> None:
        made = schema(event)
        assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert made["title"] == event
        jsonschema.Draft202012Validator.check_schema(made)

    def test_readers_may_get_more_fields(self, event: str) -> None:
        assert schema(event)["additionalProperties"] is True

    def test_example_fits_schema_and_type(self, event: str) -> None:
        given = example(event)
        jsonschema.Draft202012Validator(schema(event)).validate(given)
        made = EVENT_TYPES[event].model_validate(given)
        assert EVENT_TYPES[event].model_validate_json(made.model_dump_json(by_alias=True)) == made

    def test_schema_refuses_what_lacks_a_required_field(self, event: str) -> None:
        rules = jsonschema.Draft202012Validator(schema(event))
        for name in schema(event)["required"]:
            given = {key: value for key, value in example(event).items() if key != name}
            assert not rules.is_valid(given), name


class TestAsyncApi:
    def test_every_topic_has_its_channel(self) -> None:
        channels = document()["channels"].values()
        assert [channel["address"] for channel in channels] == Topics().all()

    def test_channels_are_declared_topics(self) -> None:
        declared = {topic.name: topic for topic in declare()}
        for channel in document()["channels"].values():
            kafka = channel["bindings"]["kafka"]
            topic = declared[channel["address"]]
            assert kafka["partitions"] == topic.partitions
            assert kafka["topicConfiguration"]["retention.ms"] == topic.retention_ms

    def test_every_channel_is_used_by_an_operation(self) -> None:
        used = {one["channel"]["$ref"] for one in document()["operations"].values()}
        assert used == {f"#/channels/{name}" for name in document()["channels"]}

    def test_references_lead_somewhere(self) -> None:
        def references(value: Any) -> list[str]:
            if isinstance(value, dict):
                own = [value["$ref"]] if "$ref" in value else []
                return own + [one for inner in value.values() for one in references(inner)]
            inner_values = value if isinstance(value, list) else []
            return [one for inner in inner_values for one in references(inner)]

        found = references(document())
        assert found
        for reference in found:
            if reference.startswith("#/"):
                assert resolved(reference) is not None
            else:
                assert (ROOT / "topics" / reference).is_file()

    @pytest.mark.parametrize("event", EVENT_TYPES)
    def test_examples_are_records_that_we_read(self, event: str) -> None:
        (shown,) = resolved(f"#/components/messages/{event}")["examples"]
        headers = tuple((name, value.encode()) for name, value in shown["headers"].items())
        value = json.dumps(shown["payload"]).encode()
        record = InboundRecord("topic", 0, 0, 0.0, b"key", value, headers)
        read, envelope = decode(record, EVENT_TYPES[event])
        assert read == EVENT_TYPES[event].model_validate(example(event))
        assert envelope.id == shown["headers"]["ce_id"]

    def test_headers_of_examples_fit_their_schema(self) -> None:
        rules = resolved("#/components/schemas/CloudEventHeaders")
        for event in EVENT_TYPES:
            (shown,) = resolved(f"#/components/messages/{event}")["examples"]
            jsonschema.validate(shown["headers"], rules)


OLD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "maxLength": 10},
        "count": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        "mode": {"$ref": "#/$defs/Mode"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "inner": {"$ref": "#/$defs/Inner"},
    },
    "required": ["id"],
    "additionalProperties": True,
    "$defs": {
        "Mode": {"type": "string", "enum": ["a", "b"]},
        "Inner": {"type": "object", "properties": {"x": {"type": "number"}}},
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """OLD with one part replaced, or removed when the value is None."""
    made = copy.deepcopy(OLD)
    *parts, last = path.split("/")
    target: Any = made
    for part in parts:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return made


class TestBreakingChanges:
    @pytest.mark.parametrize(
        ("path", "value", "problem"),
        [
            ("properties/count", None, "count: is gone"),
            ("$defs/Inner/properties", {"y": {"type": "number"}}, "inner.x: is gone"),
            ("required", ["id", "mode"], "mode: is newly required"),
            ("$defs/Inner/required", ["x"], "inner.x: is newly required"),
            ("properties/id/type", "integer", "id: its type is narrower (string)"),
            ("properties/count/anyOf", [{"type": "integer"}], "count: its type is narrower (null)"),
            ("$defs/Inner/properties/x/type", "integer", "inner.x: its type is narrower (number)"),
            ("properties/tags/items", {"type": "integer"}, "tags[]: its type is narrower (string)"),
            ("$defs/Mode/enum", ["a"], "mode: its values are narrower (b)"),
            ("properties/id/enum", ["x"], "id: its values are narrower (any)"),
            ("properties/id/maxLength", 9, "id: its maxLength is narrower (10 and 9)"),
            ("properties/id/minLength", 1, "id: its minLength is narrower (None and 1)"),
            (
                "properties/count/anyOf/0/minimum",
                1,
                "count: its minimum is narrower (0 and 1)",
            ),
            ("properties/id/pattern", "^x", "id: its pattern is narrower"),
            ("additionalProperties", False, "value: further fields are narrower"),
        ],
    )
    def test_for_those_who_write(self, path: str, value: Any, problem: str) -> None:
        assert breaking_changes(OLD, changed(path, value)) == [problem]

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("properties/extra", {"type": "string"}),
            ("required", []),
            ("properties/id/maxLength", 11),
            ("properties/id/maxLength", None),
            ("properties/id/description", "words"),
            ("$defs/Mode/enum", ["a", "b", "c"]),
            ("$defs/Inner/properties/x", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        ],
    )
    def test_what_breaks_nobody_who_writes(self, path: str, value: Any) -> None:
        assert breaking_changes(OLD, changed(path, value)) == []

    @pytest.mark.parametrize(
        ("path", "value", "problem"),
        [
            ("required", [], "id: may be missing now"),
            ("$defs/Mode/enum", ["a", "b", "c"], "mode: its values are wider (c)"),
            (
                "$defs/Inner/properties/x",
                {"anyOf": [{"type": "number"}, {"type": "null"}]},
                "inner.x: its type is wider (null)",
            ),
        ],
    )
    def test_for_those_who_read(self, path: str, value: Any, problem: str) -> None:
        assert breaking_changes(OLD, changed(path, value), written=True) == [problem]

    def test_readers_ignore_new_fields(self) -> None:
        made = changed("properties/extra", {"type": "string"})
        assert breaking_changes(OLD, made, written=True) == []

    @pytest.mark.parametrize("event", EVENT_TYPES)
    def test_nothing_changed(self, event: str) -> None:
        made = schemas()[event]
        assert breaking_changes(made, copy.deepcopy(made), written=True) == []
