"""Bringing result lists together.

Scores of different collections or encoders are not comparable; ranks are. Reciprocal rank
fusion (Cormack, Clarke and Büttcher, 2009) is used with ranks that start at 0, as Qdrant's does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ragstream.domain.evidence import Document

__all__ = ["fuse_by_rank", "merge_points", "min_max", "rrf_score"]


class _Scored(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def score(self) -> float: ...


T = TypeVar("T", bound=_Scored)


def rrf_score(k: int, ranks: Iterable[int | None]) -> float:
    """Sum of 1 / (k + rank) over the lists; rank 0 is the best, None: not in that list."""
    return sum(1.0 / (k + rank) for rank in ranks if rank is not None)


def fuse_by_rank(
    lists: Sequence[Sequence[Document]], k: int = 60, *, limit: int | None = None
) -> list[Document]:
    """One list from several, best first; a document's ``score`` becomes its fused score.

    A document in more than one list (same id) gains from each. Equal scores are ordered by the
    list they came from, then by their rank in it.
    """
    ranks: dict[str, list[int]] = {}
    first: dict[str, Document] = {}
    for documents in lists:
        for rank, document in enumerate(documents):
            ranks.setdefault(document.id, []).append(rank)
            first.setdefault(document.id, document)
    fused = [
        document.model_copy(update={"score": rrf_score(k, ranks[document.id])})
        for document in first.values()
    ]
    fused.sort(key=lambda document: -document.score)
    return fused[:limit]


def merge_points(results: Mapping[str, Sequence[T]], limit: int) -> list[tuple[str, T]]:
    """Merge collections by raw score: ``(collection, point)``, best first.

    A point that several collections hold stands once, with its highest score; an equal score
    does not replace the earlier one. Use it only where the scores are comparable.
    """
    merged: dict[str, tuple[str, T]] = {}
    for collection, points in results.items():
        for point in points:
            known = merged.get(point.id)
            if known is None or point.score > known[1].score:
                merged[point.id] = (collection, point)
    return sorted(merged.values(), key=lambda entry: -entry[1].score)[:limit]


def min_max(scores: Sequence[float]) -> list[float]:
    """Scores mapped to 0..1; all 1 when they do not differ."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if high == low:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]
