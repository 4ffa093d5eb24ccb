"""Remembering embeddings by text."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence

from ragstream.domain.ports import DenseEncoder

__all__ = ["CachedEncoder"]


class CachedEncoder:
    """A ``DenseEncoder`` that encodes a passage once, whichever document it stands in.

    Much of a corpus repeats itself: releases of one manual, boilerplate, the sentences that an
    extractive answer compares with each question. The ``limit`` latest passages are kept, in
    single precision: 384 dimensions take 1.5 KB. Queries are not cached.
    """

    def __init__(self, encoder: DenseEncoder, *, limit: int = 16_384) -> None:
        self._encoder = encoder
        self._limit = limit
        self._vectors: OrderedDict[bytes, array[float]] = OrderedDict()
        self.hits = 0

    @property
    def dimensions(self) -> int:
        return self._encoder.dimensions

    @property
    def model(self) -> str:
        return self._encoder.model

    async def encode_query(self, text: str) -> tuple[float, ...]:
        return await self._encoder.encode_query(text)

    async def encode_passages(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        found: dict[bytes, tuple[float, ...]] = {}
        for key in keys:
            if (known := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
                found[key] = tuple(known)
                self.hits += 1
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        for key, vector in zip(
            missing, await self._encoder.encode_passages(list(missing.values())), strict=True
        ):
            self._vectors[key] = kept = array("f", vector)
            found[key] = tuple(kept)  # the same as the next time
            if len(self._vectors) > self._limit:
                self._vectors.popitem(last=False)
        return [found[key] for key in keys]
