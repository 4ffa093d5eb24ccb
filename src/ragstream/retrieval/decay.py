"""Preferring recent documents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import exp

from ragstream.domain.evidence import Document

__all__ = ["FLOOR", "HORIZON_DAYS", "by_recency", "days_old", "decay", "to_unit"]

HORIZON_DAYS = 60.0
FLOOR = 0.5


def decay(days: float) -> float:
    """Multiplier max(0.5, 1 − days/60). A future date counts as today."""
    return max(FLOOR, 1.0 - max(days, 0.0) / HORIZON_DAYS)


def days_old(published: datetime | None, now: datetime) -> float:
    """Whole days since publication; 0 for undated documents, which keep their score."""
    if published is None:
        return 0.0
    if published.tzinfo is None:
        published = published.replace(tzinfo=now.tzinfo)
    return float(max((now - published).days, 0))


def to_unit(score: float) -> float:
    """A logit mapped to (0, 1), so that multiplying never rewards age."""
    return 1.0 / (1.0 + exp(-score)) if score >= 0 else exp(score) / (1.0 + exp(score))


def by_recency(documents: Iterable[Document], now: datetime) -> list[Document]:
    """Documents with decayed scores, best first; equal scores keep their order.

    When any score is negative they are taken for logits and mapped to (0, 1) first.
    """
    given = list(documents)
    logits = any(document.score < 0 for document in given)
    decayed = [
        document.model_copy(
            update={
                "score": (to_unit(document.score) if logits else document.score)
                * decay(days_old(document.metadata.published_at, now))
            }
        )
        for document in given
    ]
    decayed.sort(key=lambda document: -document.score)
    return decayed
