"""Splitting text into sentences.

Prose may be wrapped at any column. Blank lines, list items, table rows and lines such as
``Default: 1`` stand for themselves. Code, and the heads of tables, say nothing by themselves and
are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["is_value_line", "sentences"]

_FENCE = re.compile(r"^[^\S\n]*(?:```|~~~)", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)]|\|)\s+")
#: The line below the head of a Markdown table.
_RULE = re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?\s*)?$")
_HEADING = re.compile(r"^\s*#{1,6}\s")
# A short label and its value: "Default: 1", "Valid values: [0,...]".
_VALUE = re.compile(r"^\s*(?P<label>[A-Z][\w ()/-]{0,30}):[ \t]+(?P<value>\S.{0,400})$")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\S+",
        "e.g i.e vs cf approx mr mrs ms dr prof st no fig eq sec vol ed eds al resp incl max min "
        "inc ltd jr sr jan feb mar apr jun jul aug sep sept oct nov dec",
    )
)
_END = re.compile(
    r"""[.…]+["'”’»)\]]*(?=\s+["'“‘«(\[]?[^\sa-z])"""  # a stop, if what follows looks like a start
    r"""|[!?]+["'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*|[.!?]+$"""
)
_LAST_WORD = re.compile(r"([^\W\d_](?:[^\W\d_]|\.(?=[^\W\d_]))*)$")


def is_value_line(sentence: str) -> re.Match[str] | None:
    """Match with ``label`` and ``value`` if the sentence is a label with a short value."""
    found = _VALUE.match(sentence)
    if found is None or len(sentence) > 240:
        return None
    ends = (end for end in _END.finditer(sentence) if end.end() < len(sentence))
    return None if any(not _is_abbreviation(sentence, end) for end in ends) else found


def sentences(text: str) -> list[str]:
    """The sentences, in order, trimmed."""
    return [part for stretch in _stretches(text) for part in _prose(stretch) if part]


def _stretches(text: str) -> Iterator[str]:
    """Paragraphs, items and lines that stand for themselves, unwrapped."""
    lines: list[str] = []
    in_code = False
    fences = len(_FENCE.findall(text))
    for line in text.splitlines():
        if _FENCE.match(line):
            fences -= 1
            in_code = not in_code and fences > 0  # one that never ends begins no block
            yield " ".join(lines)
            lines = []
        elif in_code:
            continue
        elif _RULE.match(line):
            lines = []  # the line above was the head of a table
        elif not line.strip() or _HEADING.match(line):
            yield " ".join(lines)
            lines = []
        elif _ITEM.match(line) or _VALUE.match(line) or _is_complete(lines, line):
            yield " ".join(lines)
            lines = [line.strip()]
        else:
            lines.append(line.strip())
    yield " ".join(lines)


def _is_complete(lines: list[str], following: str) -> bool:
    """Whether the lines are a value that the following one does not continue."""
    value = bool(lines) and is_value_line(lines[0]) is not None
    return value and not following.lstrip()[:1].islower()


def _prose(paragraph: str) -> Iterator[str]:
    if paragraph.startswith("|"):
        # What stands in a row of a table belongs together; its bars are nothing to read.
        yield " – ".join(cell for cell in map(str.strip, paragraph.split("|")) if cell)
        return
    paragraph = _ITEM.sub("", paragraph).strip()
    if is_value_line(paragraph):
        yield paragraph
        return
    start = 0
    for end in _END.finditer(paragraph):
        if not _is_abbreviation(paragraph, end):
            yield paragraph[start : end.end()].strip()
            start = end.end()
    yield paragraph[start:].strip()


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    """Whether the stop belongs to a word such as ``e.g.`` or to an initial."""
    if end[0] != "." or end.end() == len(text):
        return False
    word = _LAST_WORD.search(text, max(0, end.start() - 20), end.start())
    if word is None:
        return False
    return word[1].lower() in _ABBREVIATIONS or (len(word[1]) == 1 and word[1].isupper())
