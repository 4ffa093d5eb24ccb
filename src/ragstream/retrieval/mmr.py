"""Maximal marginal relevance (Carbonell and Goldstein, 1998)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["mmr_order"]


def mmr_order(
    relevance: Sequence[float],
    similarity: Callable[[int, int], float],
    *,
    limit: int,
    lambda_: float = 0.5,
) -> list[int]:
    """Indices of at most ``limit`` candidates, each the best of what is left by
    λ·relevance − (1−λ)·(greatest similarity to what was chosen). λ 1 is relevance alone."""
    if not 0.0 <= lambda_ <= 1.0:
        raise ValueError("lambda must be in [0, 1]")
    left = list(range(len(relevance)))
    nearest = [0.0] * len(relevance)
    chosen: list[int] = []
    while left and len(chosen) < limit:
        best = max(left, key=lambda i: lambda_ * relevance[i] - (1 - lambda_) * nearest[i])
        left.remove(best)
        chosen.append(best)
        for i in left:
            nearest[i] = max(nearest[i], similarity(best, i))
    return chosen
