"""Sparse lexical vectors by feature hashing: a term's index is its MurmurHash3 (x86, 32 bits,
seed 0) as an unsigned number. The server multiplies by inverse document frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import mmh3

from ragstream.domain.evidence import SparseVector
from ragstream.retrieval.analysis import Analyzer, default, standard

__all__ = ["MAX_TERMS", "Bm25Encoder", "TfEncoder", "murmur3_32"]

MAX_TERMS = 256


def murmur3_32(text: str) -> int:
    """Unsigned 32-bit hash of the UTF-8 bytes."""
    return mmh3.hash(text.encode("utf-8", "surrogatepass"), 0, signed=False)


def _vector(weights: Iterable[tuple[int, float]]) -> SparseVector:
    ordered = sorted(weights)
    return SparseVector(
        tuple(index for index, _ in ordered), tuple(weight for _, weight in ordered)
    )


def _heaviest(counts: Counter[int], limit: int) -> list[tuple[int, int]]:
    """The most frequent terms; equal counts are taken by ascending index."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]


class TfEncoder:
    """Raw term counts of the ``standard`` analyzer, at most 256 distinct terms."""

    def __init__(self, analyzer: Analyzer = standard, *, max_terms: int = MAX_TERMS) -> None:
        self._analyzer = analyzer
        self._max_terms = max_terms

    def encode_query(self, text: str) -> SparseVector:
        return self.encode_passage(text)

    def encode_passage(self, text: str) -> SparseVector:
        counts = Counter(map(murmur3_32, self._analyzer(text)))
        return _vector((index, float(count)) for index, count in _heaviest(counts, self._max_terms))


class Bm25Encoder:
    """BM25 without its IDF, which the server knows.

    A passage's weight of a term with count f in a passage of n terms is
    f·(k1+1) / (f + k1·(1 − b + b·n/average)), saturated and length-normalised (Robertson and
    Zaragoza, 2009); a query's is 1 per distinct term. ``average_length``: terms per passage in
    the corpus; a rough figure is good enough, but changing it asks for a new index.
    """

    def __init__(
        self,
        analyzer: Analyzer = default,
        *,
        average_length: float = 160.0,
        k1: float = 1.2,
        b: float = 0.75,
    ) -> None:
        if average_length <= 0:
            raise ValueError("average_length must be positive")
        self._analyzer = analyzer
        self._average_length = average_length
        self._k1 = k1
        self._b = b

    def encode_query(self, text: str) -> SparseVector:
        return _vector((index, 1.0) for index in set(map(murmur3_32, self._analyzer(text))))

    def encode_passage(self, text: str) -> SparseVector:
        terms = self._analyzer(text)
        norm = self._k1 * (1 - self._b + self._b * len(terms) / self._average_length)
        counts = Counter(map(murmur3_32, terms))
        return _vector(
            (index, count * (self._k1 + 1) / (count + norm)) for index, count in counts.items()
        )
