"""Fitting documents and history into a model's token budget.

System prompt and question are never cut. Authoritative documents come before the conversation,
the conversation before other documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from ragstream.domain.errors import ContextDoesNotFit

__all__ = ["NOTICE", "Fitted", "Priority", "Segment", "fit"]

NOTICE = "[Context truncated due to model input limit]"

D = TypeVar("D")
H = TypeVar("H")
T = TypeVar("T")


class Priority(StrEnum):
    CRITICAL = "CRITICAL"  # the system prompt
    HIGH = "HIGH"  # the question; authoritative documents
    MEDIUM = "MEDIUM"  # conversation
    LOW = "LOW"  # documents


@dataclass(frozen=True, slots=True)
class Segment(Generic[T]):
    """A part of the prompt and its size in tokens."""

    item: T
    tokens: int
    priority: Priority = Priority.LOW


@dataclass(frozen=True, slots=True)
class Fitted(Generic[D, H]):
    """What is kept. A document's ``[CTX n]`` number is its place here, from 1.

    ``minimal``: system prompt and question left no room for anything else.
    """

    documents: tuple[D, ...]
    turns: tuple[H, ...]
    tokens: int
    truncated: bool
    minimal: bool = False


def fit(
    system: int,
    question: int,
    documents: Sequence[Segment[D]],
    turns: Sequence[Segment[H]],
    budget: int,
) -> Fitted[D, H]:
    """Choose what fits ``budget`` tokens. ``documents`` most relevant first, ``turns`` oldest
    first; the turns kept are the newest, without a gap.

    Raises ``ContextDoesNotFit`` when there are authoritative documents and none of them fits.
    """
    reserved = system + question
    if reserved >= budget:
        return Fitted((), (), reserved, truncated=True, minimal=True)
    room = budget - reserved
    high = [document for document in documents if document.priority is Priority.HIGH]
    low = [document for document in documents if document.priority is not Priority.HIGH]
    if high and min(document.tokens for document in high) > room:
        raise ContextDoesNotFit(
            f"no authoritative document fits: {room} of {budget} tokens are left, "
            f"the smallest has {min(document.tokens for document in high)}"
        )
    kept_high, room = _greedy(high, room)
    kept_turns, room = _newest(turns, room)
    kept_low, room = _greedy(low, room)
    kept = (*kept_high, *kept_low)
    return Fitted(
        documents=tuple(segment.item for segment in kept),
        turns=tuple(segment.item for segment in kept_turns),
        tokens=budget - room,
        truncated=len(kept) < len(documents) or len(kept_turns) < len(turns),
    )


def _greedy(segments: Sequence[Segment[T]], room: int) -> tuple[list[Segment[T]], int]:
    kept = []
    for segment in segments:
        if segment.tokens <= room:
            kept.append(segment)
            room -= segment.tokens
    return kept, room


def _newest(segments: Sequence[Segment[T]], room: int) -> tuple[list[Segment[T]], int]:
    kept = []
    for segment in reversed(segments):
        if segment.tokens > room:
            break
        kept.append(segment)
        room -= segment.tokens
    return kept[::-1], room
