"""The files under ``topics/``: written from the types that run, and checked against them."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ragstream.contract.asyncapi import asyncapi
from ragstream.contract.schemas import breaking_changes, schemas
from ragstream.domain.declarations import declare
from ragstream.domain.errors import ConfigurationError
from ragstream.domain.events import EVENT_TYPES
from ragstream.domain.topics import Topics
from ragstream.wire import type_name

__all__ = ["FOLDER", "LOCK", "check", "freeze", "generated", "write"]

FOLDER = Path("topics")
LOCK = "v1.lock.json"
#: Events that only we write: what others read must not widen either.
_WRITTEN = frozenset({"Answer", "AnswerDelta", "Rejection", "IndexChange"})
_DIFF_LINES = 40


def generated(root: Path) -> dict[Path, str]:
    """Text of every generated file by its path. Raises ``ConfigurationError`` when an example is
    missing or is no JSON."""
    folder = root / FOLDER
    examples = {event: _read_json(_example(root, event)) for event in EVENT_TYPES}
    texts = {folder / "topics.yaml": _topics_yaml()}
    for event, schema in schemas().items():
        texts[folder / "schemas" / f"{event}.json"] = _json(schema)
    texts[folder / "asyncapi.yaml"] = "# Generated: `ragstream contract`.\n" + _yaml(
        asyncapi(examples)
    )
    return texts


def write(root: Path) -> list[Path]:
    """Write the generated files below ``root``; returns those that changed."""
    changed = []
    for path, text in generated(root).items():
        if _read(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            changed.append(path)
    for path in _stale(root):
        path.unlink()
        changed.append(path)
    return changed


def check(root: Path) -> list[str]:
    """What is wrong with the files below ``root``, with a diff where one differs; empty when they
    are those of the types that run and nothing breaks version 1."""
    problems = _example_problems(root)
    if problems:
        return problems
    for path, text in generated(root).items():
        found = _read(path)
        if found is None:
            problems.append(f"{path.relative_to(root)}: is missing; run `ragstream contract`")
        elif found != text:
            problems.append(_diff(str(path.relative_to(root)), found, text))
    problems += [f"{path.relative_to(root)}: belongs to no event" for path in _stale(root)]
    lock = root / FOLDER / LOCK
    if not lock.exists():
        problems.append(f"{FOLDER / LOCK}: is missing; run `ragstream contract --freeze`")
    else:
        problems += [f"breaks v1: {change}" for change in _changes_since(_read_json(lock))]
    return problems


def freeze(root: Path, *, force: bool = False) -> list[str]:
    """Make the present types what later ones are compared with. Returns the breaking changes
    that ``force`` let pass.

    Raises ``ConfigurationError`` that lists them when there are any and ``force`` is not given.
    """
    path = root / FOLDER / LOCK
    changes = _changes_since(_read_json(path)) if path.exists() else []
    if changes and not force:
        raise ConfigurationError("these changes break v1:\n" + "\n".join(changes))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_json(_frozen()), "utf-8")
    return changes


def _frozen() -> dict[str, Any]:
    return {
        "topics": {topic.name: topic.partitions for topic in declare()},
        "types": {event: type_name(cls) for event, cls in EVENT_TYPES.items()},
        "events": schemas(),
    }


def _changes_since(frozen: Any) -> list[str]:
    present = _frozen()
    changes = []
    for topic, partitions in frozen["topics"].items():
        now = present["topics"].get(topic)
        if now is None:
            changes.append(f"topic {topic}: is gone")
        elif now != partitions:
            changes.append(f"topic {topic}: has {now} partitions, not {partitions}")
    for event, name in frozen["types"].items():
        if present["types"].get(event) != name:
            changes.append(f"{event}: its type is no longer {name}")
    for event, schema in frozen["events"].items():
        if event in present["events"]:
            found = breaking_changes(schema, present["events"][event], written=event in _WRITTEN)
            changes += [f"{event}.{change}" for change in found]
    return changes


def _topics_yaml() -> str:
    """The declaration as operators read it."""
    production = declare(Topics(), "production")
    development = {topic.name: topic for topic in declare(Topics(), "development")}
    topics: list[dict[str, Any]] = []
    for topic in production:
        small = development[topic.name]
        config = topic.config()
        del config["min.insync.replicas"]
        topics.append(
            {
                "name": topic.name,
                "purpose": topic.purpose,
                "event": topic.event,
                **({} if topic.dead_letter else {"type": type_name(EVENT_TYPES[topic.event])}),
                **({"group": topic.group} if topic.group else {}),
                "partitions": {"production": topic.partitions, "development": small.partitions},
                "config": {
                    name: int(value) if value.isdigit() else value for name, value in config.items()
                },
            }
        )
    environments = {
        name: {
            "replication": one.replication,
            "min.insync.replicas": int(one.config()["min.insync.replicas"]),
        }
        for name, one in (
            ("production", production[0]),
            ("development", development[production[0].name]),
        )
    }
    head = (
        "# Generated: `ragstream contract`. The declaration is ragstream/domain/declarations.py;\n"
        "# `ragstream topics apply` creates what is missing. Partitions are fixed for a version.\n"
    )
    return head + _yaml({"prefix": "ragstream", "environments": environments, "topics": topics})


def _example(root: Path, event: str) -> Path:
    return root / FOLDER / "examples" / f"{event}.json"


def _example_problems(root: Path) -> list[str]:
    problems = []
    for event, cls in EVENT_TYPES.items():
        path = _example(root, event)
        try:
            cls.model_validate(_read_json(path))
        except ConfigurationError as error:
            problems.append(str(error))
        except ValidationError as error:
            problems += [
                f"{path.relative_to(root)}: {'.'.join(map(str, item['loc']))}: {item['msg']}"
                for item in error.errors(include_url=False)
            ]
    return problems


def _stale(root: Path) -> list[Path]:
    folders = (root / FOLDER / "schemas", root / FOLDER / "examples")
    return [
        path
        for folder in folders
        for path in sorted(folder.glob("*.json"))
        if path.stem not in EVENT_TYPES
    ]


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks; no anchors, which readers of AsyncAPI do not expect."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _yaml(value: Any) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def _diff(name: str, found: str, expected: str) -> str:
    lines = list(
        difflib.unified_diff(
            found.splitlines(), expected.splitlines(), name, "from the types", lineterm="", n=1
        )
    )
    more = len(lines) - _DIFF_LINES
    shown = lines[:_DIFF_LINES] + ([f"… {more} more lines"] if more > 0 else [])
    return "\n".join([f"{name}: differs; run `ragstream contract`", *shown])
