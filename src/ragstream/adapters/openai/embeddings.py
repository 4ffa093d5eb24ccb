"""Dense vectors from an embeddings endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import openai
from openai import AsyncOpenAI

from ragstream.adapters.openai.endpoint import translated_errors
from ragstream.domain.errors import PermanentError, TransientError

__all__ = ["OpenAIEmbeddings"]


class OpenAIEmbeddings:
    """Dense vectors from an embeddings endpoint (a ``DenseEncoder``).

    ``query_prefix`` and ``passage_prefix``: what the model wants in front of either kind, such as
    ``query: ``. ``query_headers`` and ``passage_headers``: extra headers per purpose, such as a
    tier of service. ``batch_size``: texts per request. ``query_timeout`` and
    ``passage_timeout``: seconds per request. ``request_dimensions``: have the endpoint shorten
    the vectors to ``dimensions``.
    """

    def __init__(
        self,
        client: AsyncOpenAI,
        model: str,
        dimensions: int,
        *,
        batch_size: int = 64,
        query_prefix: str = "",
        passage_prefix: str = "",
        query_headers: Mapping[str, str] | None = None,
        passage_headers: Mapping[str, str] | None = None,
        query_timeout: float = 5.0,
        passage_timeout: float = 30.0,
        request_dimensions: bool = False,
    ) -> None:
        self._client = client
        self._model = model
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._query_headers = query_headers
        self._passage_headers = passage_headers
        self._query_timeout = query_timeout
        self._passage_timeout = passage_timeout
        self._request_dimensions = request_dimensions

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def model(self) -> str:
        return self._model

    async def encode_query(self, text: str) -> tuple[float, ...]:
        vectors = await self._embed(
            [self._query_prefix + text], self._query_headers, self._query_timeout
        )
        return vectors[0]

    async def encode_passages(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        vectors: list[tuple[float, ...]] = []
        for start in range(0, len(texts), self._batch_size):
            batch = [
                self._passage_prefix + text for text in texts[start : start + self._batch_size]
            ]
            vectors += await self._embed(batch, self._passage_headers, self._passage_timeout)
        return vectors

    async def _embed(
        self, texts: list[str], headers: Mapping[str, str] | None, timeout: float
    ) -> list[tuple[float, ...]]:
        with translated_errors("embeddings"):
            async with asyncio.timeout(timeout):
                response = await self._client.embeddings.create(
                    model=self._model,
                    input=texts,
                    encoding_format="float",
                    dimensions=self._dimensions if self._request_dimensions else openai.omit,
                    extra_headers=headers,
                )
        items = response.data or []  # the client does not check what the server leaves out
        if len(items) != len(texts):
            raise TransientError(f"embeddings: {len(items)} vectors came for {len(texts)} texts")
        vectors = [tuple(item.embedding) for item in sorted(items, key=lambda item: item.index)]
        for vector in vectors:
            if len(vector) != self._dimensions:
                raise PermanentError(
                    f"embeddings: {self._model} gives {len(vector)} dimensions where "
                    f"{self._dimensions} are configured"
                )
        return vectors
