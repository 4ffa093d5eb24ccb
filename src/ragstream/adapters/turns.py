"""Answered questions as turns of a conversation."""

from __future__ import annotations

from ragstream.domain.events import MAX_TEXT, Role, Turn

__all__ = ["turns_of"]


def turns_of(question: str, text: str) -> tuple[Turn, Turn]:
    """The question and its answer, each cut to the length that a turn may have."""
    return (
        Turn(role=Role.USER, text=question[:MAX_TEXT]),
        Turn(role=Role.ASSISTANT, text=text[:MAX_TEXT]),
    )
