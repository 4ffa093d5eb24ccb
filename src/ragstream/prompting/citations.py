"""Citations of retained documents, and the ``[n]`` markers that refer to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragstream.domain.events import Citation
from ragstream.domain.evidence import Document

__all__ = [
    "SNIPPET_LENGTH",
    "ResolvedText",
    "citations",
    "cited_numbers",
    "quoted",
    "resolve_markers",
    "snippet",
]

SNIPPET_LENGTH = 500

# Not the text of a link: `[1](…)`.
_MARKER = re.compile(r"\[(?:CTX\s*)?(\d{1,4}(?:\s*,\s*\d{1,4})*)\](?!\()")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def snippet(text: str) -> str:
    """The text, at most 500 characters."""
    return text if len(text) <= SNIPPET_LENGTH else text[: SNIPPET_LENGTH - 1] + "…"


def _place(document: Document) -> tuple[str | None, str | None]:
    """URL without fragment, and anchor; the document's own anchor wins over the fragment."""
    url, _, fragment = (document.metadata.url or "").strip().partition("#")
    anchor = (document.metadata.anchor or "").strip() or fragment
    return url or None, anchor or None


def citations(
    documents: Sequence[Document],
    *,
    limit: int | None = None,
    only: frozenset[int] | None = None,
) -> tuple[Citation, ...]:
    """Citations of the retained documents, in ``[CTX n]`` order.

    Documents at the same URL and anchor are cited once, under the first one's number, before
    ``limit`` is applied; documents without a URL are told apart by chunk. ``only``: numbers to
    keep, such as those that the answer refers to.
    """
    numbers = canonical_numbers(documents)
    wanted = None if only is None else {numbers[n] for n in only if n in numbers}
    made = [
        _citation(number, document)
        for number, document in enumerate(documents, start=1)
        if numbers[number] == number and (wanted is None or number in wanted)
    ]
    return tuple(made[:limit])


def canonical_numbers(documents: Sequence[Document]) -> dict[int, int]:
    """Each document's number → the number it is cited under."""
    first: dict[tuple[str | None, ...], int] = {}
    numbers = {}
    for number, document in enumerate(documents, start=1):
        url, anchor = _place(document)
        key = (url, anchor) if url else (None, document.collection, document.id)
        numbers[number] = first.setdefault(key, number)
    return numbers


def _citation(number: int, document: Document) -> Citation:
    url, anchor = _place(document)
    return Citation(
        number=number,
        document_id=document.document_id,
        chunk_id=document.id,
        title=document.metadata.title,
        url=url,
        anchor=anchor,
        snippet=snippet(document.text),
        score=document.score,
        metadata=document.metadata,
        version=document.version,
    )


@dataclass(frozen=True, slots=True)
class ResolvedText:
    """``numbers``: documents that the text refers to, in order of mention. ``invented``: how
    many references pointed at nothing and were taken out."""

    text: str
    numbers: tuple[int, ...]
    invented: int


def resolve_markers(text: str, documents: Sequence[Document]) -> ResolvedText:
    """Make every ``[n]`` of an answer point at a citation of ``documents``.

    Numbers of documents that are cited under another number are replaced, invented ones are
    removed. Code is left as it is.
    """
    canonical = canonical_numbers(documents)
    numbers: dict[int, None] = {}
    invented = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal invented
        asked = _listed(match)
        if 0 in asked:  # an interval or index: documents are numbered from 1
            return match[0]
        known = list(dict.fromkeys(canonical[number] for number in asked if number in canonical))
        invented += sum(number not in canonical for number in asked)
        numbers.update(dict.fromkeys(known))
        return "".join(f"[{number}]" for number in known)

    resolved = _outside_code(text, replace)
    if invented:
        resolved = re.sub(r"[ \t]+(?=[.,;:!?](?:\s|$)|$)", "", resolved, flags=re.MULTILINE)
    return ResolvedText(resolved, tuple(numbers), invented)


def quoted(text: str) -> str:
    """A quotation in which numbers in brackets, such as the interval ``[0, 1]``, are marked as
    code, so that they are not read as references."""
    return _outside_code(text, lambda match: f"`{match[0]}`")


def _outside_code(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    parts = []
    position = 0
    for code in _CODE.finditer(text):
        parts += [_MARKER.sub(replace, text[position : code.start()]), code[0]]
        position = code.end()
    parts.append(_MARKER.sub(replace, text[position:]))
    return "".join(parts)


def _listed(marker: re.Match[str]) -> list[int]:
    return [int(number) for number in marker[1].split(",")]


def cited_numbers(text: str) -> tuple[int, ...]:
    """Numbers that a text refers to, in order, each once."""
    lists = (_listed(match) for match in _MARKER.finditer(_CODE.sub(" ", text)))
    found = (number for numbers in lists if 0 not in numbers for number in numbers)
    return tuple(dict.fromkeys(found))
