"""Documents from files: md, txt, html, and jsonl in the layout of BEIR.

A jsonl line is ``{"_id": …, "title": …, "text": …, "metadata": {…}}``.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from ragstream.domain.events import DocumentEvent
from ragstream.domain.evidence import Metadata

__all__ = ["SUFFIXES", "Unreadable", "read_documents"]

MEDIA_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
}
SUFFIXES = (*MEDIA_TYPES, ".jsonl")

#: Usual names of what our metadata calls otherwise.
_RENAMED = {
    "version": "docVersion",
    "release": "docVersion",
    "kind": "docType",
    "link": "url",
    "lang": "language",
    "released": "publishedAt",
    "published": "publishedAt",
    "date": "publishedAt",
    "timestamp": "publishedAt",
}


class Unreadable(Exception):
    """A file or line that is no document; the message says which and why."""


def read_documents(
    path: Path, *, base: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Iterator[DocumentEvent | Unreadable]:
    """Documents of a file, or of all files below a folder with a suffix that is known.

    ``base``: fields of every event, such as tenant and kind; ``metadata``: added to each
    document's own. What can't be read is yielded as well, so that the rest goes on.
    """
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if file.is_file() and file.suffix.lower() in SUFFIXES and not hidden:
                yield from read_documents(file, base=base, metadata=metadata)
    elif not path.exists():
        yield Unreadable(f"{path}: no such file")
    elif not path.is_file():  # to read from a pipe might wait for ever
        yield Unreadable(f"{path}: not a file or folder")
    elif path.suffix.lower() == ".jsonl":
        yield from _lines(path, base, metadata)
    elif path.suffix.lower() in MEDIA_TYPES:
        yield _file(path, base, metadata)
    else:
        yield Unreadable(f"{path}: not one of {', '.join(SUFFIXES)}")


def _file(
    path: Path, base: Mapping[str, Any], metadata: Mapping[str, Any]
) -> DocumentEvent | Unreadable:
    try:
        raw = path.read_bytes()
    except OSError as error:
        return Unreadable(f"{path}: {error.strerror}")
    if b"\x00" in raw[:8192]:
        return Unreadable(f"{path}: a binary file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Unreadable(f"{path}: not UTF-8 at byte {error.start}")
    own = {"docPath": path.as_posix(), "sourceName": path.name, "sourceKind": "file"}
    return _event(
        str(path),
        {
            **base,
            "document_id": path.as_posix(),
            "media_type": MEDIA_TYPES[path.suffix.lower()],
            "text": text,
            "metadata": {**own, **metadata},
        },
    )


def _lines(
    path: Path, base: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Iterator[DocumentEvent | Unreadable]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if text := line.removeprefix(codecs.BOM_UTF8).strip():
                    yield _line(f"{path}:{number}", text, base, metadata)
    except OSError as error:
        yield Unreadable(f"{path}: {error.strerror}")


def _line(
    where: str, line: bytes, base: Mapping[str, Any], metadata: Mapping[str, Any]
) -> DocumentEvent | Unreadable:
    try:
        # As strict as what it is published with: no NaN, no lone surrogates.
        entry = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Unreadable(f"{where}: not JSON: {error}")
    id = entry.get("_id") if isinstance(entry, dict) else None
    if not isinstance(id, str | int) or isinstance(id, bool):
        return Unreadable(f"{where}: no _id")
    own = entry.get("metadata")
    return _event(
        where,
        {
            **base,
            "document_id": str(id),
            "text": entry.get("text") or "",
            "metadata": {
                **_translated(own if isinstance(own, dict) else {}),
                **({"title": entry["title"]} if entry.get("title") else {}),
                **metadata,
            },
        },
    )


def _event(where: str, fields: Mapping[str, Any]) -> DocumentEvent | Unreadable:
    try:
        return DocumentEvent.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "text"
        reason = first["msg"].removeprefix("Value error, ")
        return Unreadable(f"{where}: {field}: {reason}")


def _translated(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata under our names; what has none keeps its own."""
    result: dict[str, Any] = {}
    known = {field.alias for field in Metadata.model_fields.values()}
    for name, value in metadata.items():
        ours = _RENAMED.get(name, name)
        if ours == "publishedAt" and (value := _time(value)) is None:
            result[name] = metadata[name]
        elif ours not in metadata or ours == name:
            result[ours] = value
        elif name not in known:
            result[name] = value
    return result


def _time(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()
