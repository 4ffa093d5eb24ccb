"""Ordering candidates by how much of the question they cover: reranking without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

from ragstream.domain.evidence import Document
from ragstream.retrieval.analysis import Analyzer, default

__all__ = ["coverage", "coverage_scores"]

#: What a term counts that stands in the text only, compared with one in the title or a heading.
BODY = 0.7
#: Share of the coverage in the score; the rest is the score the candidate came with.
WEIGHT = 0.5


def coverage(
    question: str, documents: Sequence[Document], analyze: Analyzer = default
) -> list[float]:
    """Share of the question that each document covers, 0 to 1.

    A term weighs its inverse document frequency over the candidates, log((1 + N) / (1 + n)): what
    all of them have in common decides nothing.
    """
    asked = frozenset(analyze(question))
    titles = [frozenset(analyze(_title(document))) for document in documents]
    bodies = [frozenset(analyze(document.text)) for document in documents]
    found = Counter(
        term for title, body in zip(titles, bodies, strict=True) for term in asked & (title | body)
    )
    # A term that no candidate has can't tell them apart.
    weights = {term: log((1 + len(documents)) / (1 + count)) for term, count in found.items()}
    total = sum(weights.values())
    if not total:
        return [0.0] * len(documents)
    return [
        sum(
            weight * (1.0 if term in title else BODY if term in body else 0.0)
            for term, weight in weights.items()
        )
        / total
        for title, body in zip(titles, bodies, strict=True)
    ]


def coverage_scores(
    question: str, documents: Sequence[Document], analyze: Analyzer = default
) -> list[float]:
    """Scores from 0 to 1: coverage blended with the candidates' own, as shares of the best."""
    best = max((document.score for document in documents), default=0.0)
    own = [document.score / best if best > 0 else 1.0 for document in documents]
    covered = coverage(question, documents, analyze)
    return [
        WEIGHT * share + (1 - WEIGHT) * max(score, 0.0)
        for share, score in zip(covered, own, strict=True)
    ]


def _title(document: Document) -> str:
    return " ".join([document.metadata.title or "", *document.metadata.headings])
