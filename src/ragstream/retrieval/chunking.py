"""Cutting documents into chunks that keep to their structure.

A chunk never spans two sections. Paragraphs, code and tables stay whole where they fit; larger
ones are cut at sentences or lines, and only what has neither at tokens.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID, uuid5

from ragstream.domain.evidence import Chunk, Metadata
from ragstream.domain.ports import TokenCounter
from ragstream.retrieval.parsing import Block, BlockKind, parse

__all__ = ["chunk_document", "chunk_windows", "content_hash"]

_NAMESPACE = UUID("6f4a4a0e-2f0a-5d5e-9b57-0d6f1c5f3c11")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


@dataclass(frozen=True, slots=True)
class _Piece:
    """``glue``: what stands between it and the piece before it."""

    text: str
    tokens: int
    glue: str


def chunk_windows(tokens: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """``[start, end)`` windows over that many tokens; each starts ``overlap`` before the last
    one's end, and the last one ends at the end."""
    if size <= 0 or not 0 <= overlap < size:
        raise ValueError("needs size > 0 and 0 <= overlap < size")
    windows = []
    start = 0
    while start < tokens:
        end = min(start + size, tokens)
        windows.append((start, end))
        if end == tokens:
            break
        start = end - overlap
    return windows


def content_hash(text: str, embed_text: str) -> str:
    """SHA-256, hexadecimal, of what is shown and what is encoded."""
    return hashlib.sha256(f"{text}\0{embed_text}".encode()).hexdigest()


def chunk_document(
    text: str,
    *,
    document_id: str,
    tenant: str,
    collection: str,
    counter: TokenCounter,
    media_type: str = "text/plain",
    metadata: Metadata | None = None,
    max_tokens: int = 900,
    overlap: int = 150,
) -> list[Chunk]:
    """Chunks of at most ``max_tokens`` tokens of text, in order.

    Consecutive chunks of one section share up to ``overlap`` tokens of whole sentences or lines.
    A chunk's id depends on tenant, collection, document and content, so that it stays the same
    when the document changes elsewhere.
    """
    if max_tokens <= 0 or not 0 <= overlap < max_tokens:
        raise ValueError("needs max_tokens > 0 and 0 <= overlap < max_tokens")
    given = metadata or Metadata()
    parsed = parse(text, media_type)
    title = given.title or parsed.title
    repeats: Counter[str] = Counter()
    chunks: list[Chunk] = []
    for (headings, anchor), blocks in groupby(parsed.blocks, key=lambda b: (b.headings, b.anchor)):
        context = _context(title, headings)
        room = max(max_tokens - counter.count(context), (max_tokens + 1) // 2)
        for body in _pack(list(blocks), room, min(overlap, room // 2), counter):
            embed_text = f"{context}\n{body}" if context else body
            digest = content_hash(body, embed_text)
            name = "\0".join((tenant, collection, document_id, digest, str(repeats[digest])))
            repeats[digest] += 1
            chunks.append(
                Chunk(
                    id=str(uuid5(_NAMESPACE, name)),
                    document_id=document_id,
                    index=len(chunks),
                    text=body,
                    embed_text=embed_text,
                    metadata=given.model_copy(
                        update={
                            "title": title,
                            "hash": digest,
                            "chunk_index": len(chunks),
                            "headings": headings or given.headings,
                            "anchor": anchor or given.anchor,
                        }
                    ),
                )
            )
    return chunks


def _context(title: str | None, headings: Sequence[str]) -> str:
    """Title and headings, each once."""
    return "\n".join(dict.fromkeys([title, *headings] if title else headings))


def _pack(blocks: Sequence[Block], room: int, overlap: int, counter: TokenCounter) -> Iterator[str]:
    """Texts of at most ``room`` tokens from the blocks of one section."""
    current: list[_Piece] = []
    fresh = False  # whether anything in it is not in the text before
    for piece in _pieces(blocks, room, counter):
        if current and not _fits([*current, piece], room, counter):
            if fresh:
                yield _join(current)
            current = _tail(current, overlap)
            while current and not _fits([*current, piece], room, counter):
                current.pop(0)
        current.append(piece)
        fresh = True
    if fresh:
        yield _join(current)


def _fits(pieces: Sequence[_Piece], room: int, counter: TokenCounter) -> bool:
    # Tokens of parts may add up to more than those of the whole, hardly ever to less.
    estimate = sum(piece.tokens + 1 for piece in pieces)
    return estimate <= room * 0.9 or counter.count(_join(pieces)) <= room


def _join(pieces: Sequence[_Piece]) -> str:
    first, *rest = pieces
    return first.text + "".join(piece.glue + piece.text for piece in rest)


def _tail(pieces: Sequence[_Piece], overlap: int) -> list[_Piece]:
    """The last pieces that fit the overlap, never all of them."""
    kept: list[_Piece] = []
    used = 0
    for piece in reversed(pieces[1:]):
        used += piece.tokens + 1
        if used > overlap:
            break
        kept.insert(0, piece)
    return kept


def _pieces(blocks: Sequence[Block], room: int, counter: TokenCounter) -> Iterator[_Piece]:
    for block in blocks:
        yield from _split(block.text, "\n\n", block.kind, room, counter)


def _split(
    text: str, glue: str, kind: BlockKind, room: int, counter: TokenCounter
) -> Iterator[_Piece]:
    """The text whole, or in parts that fit."""
    tokens = counter.count(text)
    if tokens <= room:
        yield _Piece(text, tokens, glue)
        return
    lines = [line for line in text.split("\n") if line.strip()]
    parts, inner = lines, "\n"
    if len(lines) < 2 and kind is BlockKind.TEXT:
        parts = [part for part in _SENTENCE_END.split(text) if part.strip()]
        inner = " " if text.isascii() or " " in text else ""
    if len(parts) < 2:
        yield from _cut(text, glue, tokens, room, counter)
        return
    for position, part in enumerate(parts):
        yield from _split(part, glue if position == 0 else inner, kind, room, counter)


def _cut(text: str, glue: str, tokens: int, room: int, counter: TokenCounter) -> Iterator[_Piece]:
    """Halves at white space, where there is some near the middle, until they fit."""
    while tokens > room:
        end = _cut_point(text, max(1, len(text) * room // (tokens + 1)))
        while end > 1 and counter.count(text[:end]) > room:
            end = max(1, end * 9 // 10)
        head, text = text[:end], text[end:]
        yield _Piece(head, counter.count(head), glue)
        glue = ""
        tokens = counter.count(text)
    if text:
        yield _Piece(text, tokens, glue)


def _cut_point(text: str, near: int) -> int:
    """After the last white space in the second half of ``text[:near]``, else ``near``."""
    for position in range(near, near // 2, -1):
        if text[position - 1].isspace():
            return position
    return near
