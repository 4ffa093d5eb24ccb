"""Strict reading of a reranking model's reply: exactly ``{"order": [0, 3, …]}``."""

from __future__ import annotations

import json

from ragstream.domain.errors import RerankRejected

__all__ = ["parse_order"]


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise RerankRejected("a key stands twice")
    return fields


def _no_constant(name: str) -> object:
    raise RerankRejected(f"{name} is not JSON")


def parse_order(reply: str, candidates: int, keep: int) -> tuple[int, ...]:
    """Indices of the relevant candidates, most relevant first, at most ``keep``.

    The reply is one JSON object with the one field ``order``: distinct whole numbers below
    ``candidates``, fewer than all where some are irrelevant, none where all are. Anything else
    (prose, fences, other fields, numbers in another form) raises ``RerankRejected``.
    """
    try:
        parsed = json.loads(
            reply, object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise RerankRejected(f"not one JSON object: {error}") from error
    if not isinstance(parsed, dict) or set(parsed) != {"order"}:
        raise RerankRejected("must be an object with the one field order")
    order = parsed["order"]
    if not isinstance(order, list):
        raise RerankRejected("order must be an array")
    # bool is an int to Python, not to JSON.
    if not all(type(index) is int and 0 <= index < candidates for index in order):
        raise RerankRejected(f"order must hold whole numbers from 0 to {candidates - 1}")
    if len(set(order)) != len(order):
        raise RerankRejected("an index stands twice")
    return tuple(order[:keep])
