"""Routing by keywords and ranking by fusion order: what runs where no model is configured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from ragstream.domain.errors import ConfigurationError
from ragstream.domain.evidence import Document
from ragstream.domain.ports import Ranking, RouteDescription

__all__ = ["FusionOrder", "RuleClassifier"]

_MARGIN = 0.01


class RuleClassifier:
    """Routes by regular expressions, in any case: the first route with a match is taken.

    ``rules``: route → its patterns, the routes in order of precedence.
    """

    def __init__(self, rules: Mapping[str, Iterable[str]]) -> None:
        self._rules = {
            route: tuple(_compiled(route, pattern) for pattern in patterns)
            for route, patterns in rules.items()
        }

    async def classify(
        self, text: str, routes: Sequence[RouteDescription], *, timeout: float
    ) -> str | None:
        offered = {route.name for route in routes}
        for route, patterns in self._rules.items():
            if route in offered and any(pattern.search(text) for pattern in patterns):
                return route
        return None


def _compiled(route: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ConfigurationError(f"rule {pattern!r} of route {route}: {error}") from error


class FusionOrder:
    """Keeps the order in which the documents come.

    Scores lie between 0.01 and 0.99 and never rise: each document's score as a share of the
    best one, or of its rank where the documents carry no positive scores.
    """

    async def rerank(
        self, query: str, documents: Sequence[Document], *, keep: int, timeout: float
    ) -> Ranking:
        order = tuple(range(min(keep, len(documents))))
        return Ranking(order, _calibrated([documents[index].score for index in order]))


def _calibrated(scores: Sequence[float]) -> tuple[float, ...]:
    if not all(math.isfinite(score) and score > 0 for score in scores):
        scores = [1 / rank for rank in range(1, len(scores) + 1)]
    best = max(scores, default=1.0)
    calibrated: list[float] = []
    ceiling = 1 - _MARGIN
    for score in scores:
        ceiling = max(_MARGIN, min(ceiling, score / best))
        calibrated.append(ceiling)
    return tuple(calibrated)
