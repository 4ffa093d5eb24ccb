"""Answers without a language model: sentences of the documents, picked and cited."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Sequence

from ragstream.domain.errors import TransientError
from ragstream.domain.ports import DenseEncoder, GeneratedPiece, Prompt
from ragstream.prompting.extractive import Analyze, Extraction, shortlist

__all__ = ["ExtractiveGenerator"]

_PIECE_START = re.compile(r"(?<=\])(?=\s)")


class ExtractiveGenerator:
    """Streams the picked sentences one by one; ends with ``no_answer`` when none answers.

    ``analyze``: text to index terms, as the keyword index has them. ``encoder``: compares
    sentences with the question by meaning as well.
    """

    def __init__(self, analyze: Analyze, encoder: DenseEncoder | None = None) -> None:
        self._analyze = analyze
        self._encoder = encoder

    @property
    def model(self) -> str:
        return "extractive"

    async def generate(self, prompt: Prompt, *, timeout: float) -> AsyncIterator[GeneratedPiece]:
        try:
            async with asyncio.timeout(timeout):
                extraction = await self._extract(prompt)
        except TimeoutError as error:
            raise TransientError("no answer was picked in time") from error
        if extraction is None:
            yield GeneratedPiece(finish_reason="no_answer")
            return
        for piece in _PIECE_START.split(extraction.text):
            yield GeneratedPiece(text=piece)
        yield GeneratedPiece(finish_reason="stop")

    async def _extract(self, prompt: Prompt) -> Extraction | None:
        listed = shortlist(prompt.question, prompt.documents, self._analyze)
        if self._encoder is None or not listed.texts:
            return listed.choose()
        question, sentences = await asyncio.gather(
            self._encoder.encode_query(prompt.question),
            self._encoder.encode_passages(listed.texts),
        )
        return listed.choose([_cosine(question, sentence) for sentence in sentences])


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / lengths if lengths else 0.0
