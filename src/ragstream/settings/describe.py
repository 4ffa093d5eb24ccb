"""Every variable, for people: rows, and the page ``docs/settings.md``."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from ragstream.settings.model import Settings
from ragstream.settings.profiles import BUILT_IN, PROFILES
from ragstream.settings.reference import REFERENCE
from ragstream.settings.sources import PREFIX
from ragstream.settings.types import parse_duration

__all__ = ["Variable", "describe", "field_at", "markdown", "variable_name"]

#: Tables whose entries have names of the user's choice.
_TABLES = ("routes", "products")


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable. ``default`` is production's, ``embedded`` that of the embedded
    profile; both as they would be written. ``secret``: never shown."""

    name: str
    path: tuple[str, ...]
    default: str
    embedded: str
    description: str
    secret: bool


def variable_name(path: tuple[str | int, ...]) -> str:
    """``RAGSTREAM_RAG__SEARCH_TOP_K`` for ("rag", "search_top_k"); places in lists in brackets."""
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += f"__{part}" if name else part
    return PREFIX + name.upper()


def describe() -> list[Variable]:
    """All variables, in the order of the sections."""
    return list(_rows(Settings, ()))


def field_at(path: tuple[str | int, ...]) -> FieldInfo | None:
    """The field that a path leads to, or None. What lies within a field is the field."""
    model: type[BaseModel] = Settings
    found: FieldInfo | None = None
    parts = iter(path)
    for part in parts:
        found = model.model_fields.get(str(part))
        if found is None:
            return None
        inner = _model_in(found)
        if inner is None:
            return found
        if str(part) in _TABLES and next(parts, None) is None:
            return found
        model = inner
    return found


def is_secret(field: FieldInfo) -> bool:
    """Whether the field, or any within it, must not be shown."""
    inner = _model_in(field)
    if inner is not None:
        return any(is_secret(one) for one in inner.model_fields.values())
    return "SecretStr" in repr(field.annotation)


def _rows(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[Variable]:
    for name, field in model.model_fields.items():
        here = (*path, name)
        inner = _model_in(field)
        if inner is not None and here != ("rag", "models"):
            yield from _rows(inner, (*here, "<NAME>") if name in _TABLES else here)
        elif not (path and path[0] in _TABLES and name == "name"):
            default = _default(field, _dig(BUILT_IN, here))
            profile = _dig(PROFILES["embedded"], here)
            yield Variable(
                name=variable_name(here),
                path=here,
                default=default,
                embedded=default if profile is None else _written(profile, field),
                description=field.description or "",
                secret=is_secret(field),
            )


def _model_in(field: FieldInfo) -> type[BaseModel] | None:
    """The section behind a field, directly or as the values of a table."""
    annotation = field.annotation
    if get_origin(annotation) is dict:
        annotation = get_args(annotation)[1]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


def _dig(values: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _default(field: FieldInfo, built_in: Any) -> str:
    value = built_in if built_in is not None else field.get_default(call_default_factory=False)
    return "required" if field.is_required() else _written(value, field)


def _written(value: Any, field: FieldInfo) -> str:
    if value is None or value in ((), {}, frozenset(), ""):
        return ""
    if isinstance(value, SecretStr):
        return "…"
    if isinstance(value, bool):
        return str(value).lower()
    if _is_duration(field):
        return _seconds(float(value))
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_written(one, field)}" for name, one in value.items())
    return str(value)


def _is_duration(field: FieldInfo) -> bool:
    annotation = field.annotation
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else ()
    metadata = [*field.metadata, *(m for part in parts for m in getattr(part, "__metadata__", ()))]
    return any(getattr(one, "func", None) is parse_duration for one in metadata)


def _seconds(value: float) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if value >= size and value % size == 0:
            return f"{int(value / size)}{unit}"
    return f"{int(value * 1000)}ms" if value < 1 else f"{value:g}s"


_HEAD = """\
# Settings

Each setting is an environment variable, and a key of the same name in `ragstream.toml` (or the
file that `RAGSTREAM_CONFIG` names): `RAGSTREAM_RAG__SEARCH_TOP_K=8` is

```toml
[rag]
search_top_k = 8
```

The first that says something counts: environment variables, `OPENAI_BASE_URL`, `OPENAI_API_KEY`
and `OPENAI_MODEL` (for the chat model), `.ragstream/dev.env` (written by `ragstream dev`), the
file, the profile, the default. Durations are written `8s`, `500ms`, `2m`, `PT8S` or as seconds;
lists with commas or as JSON; tables as JSON. A blank value of an optional setting is the same as
none. All problems are reported at once, each with its variable; a variable that starts with
`RAGSTREAM_` and is no setting is a problem too. Secrets are never shown.

`RAGSTREAM_PROFILE` is `embedded` (what `ragstream dev` starts) or `production` (your own
services, which must be named). Routes and products are tables: what you give is put over the
built-in entry of that name, or makes a new one.

This page is generated: `python -m ragstream.settings > docs/settings.md`.
"""


def markdown() -> str:
    """The page ``docs/settings.md``."""
    lines = [_HEAD]
    section = None
    for row in describe():
        if row.path[0] != section:
            section = row.path[0]
            lines += ["", f"## {section}", "", "| variable | default | embedded | |"]
            lines += ["| --- | --- | --- | --- |"]
        embedded = row.embedded if row.embedded != row.default else ""
        cells = (f"`{row.name}`", _code(row.default), _code(embedded), row.description)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Built-in routes and products", ""]
    lines += ["| entry | settings |", "| --- | --- |"]
    for table in _TABLES:
        for name, entry in BUILT_IN[table].items():
            told = "; ".join(f"{key} {_code(_entry(value))}" for key, value in entry.items())
            lines.append(f"| {table} `{name}` | {told} |")
    lines += ["", "## Properties of the reference pipeline", ""]
    lines += ["| property | variable |", "| --- | --- |"]
    lines += [f"| `{name}` | `{variable_name(path)}` |" for name, path in REFERENCE.items()]
    return "\n".join(lines) + "\n"


def _entry(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""
