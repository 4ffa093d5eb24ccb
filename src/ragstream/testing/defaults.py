"""What the server answers when no rule says otherwise: deterministic and useful for a pipeline."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct
from collections.abc import Sequence

import orjson

__all__ = ["chat_text", "embed", "encode_base64"]

_CANDIDATE = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_CONTEXT = re.compile(
    r"""^\[CTX\ (\d+)\][^\n]*\n   # [CTX n] url; elsewhere in a line it is only spoken of
        (?:[A-Z][a-z]+:\ [^\n]*\n)*  # Title: and the like
        (?:<document>\n)?
        (.+?)
        (?=\n</document>|\n\s*\[CTX\ |\Z)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_ROUTE = re.compile(r"^- (\S+): (.*)$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_WORD = re.compile(r"\w+")
_LONG_WORD = re.compile(r"\w{4,}")


def chat_text(messages: Sequence[str], *, json: bool) -> str:
    """A reply to a chat request with these messages, of which the last holds the question.

    In JSON mode: the candidates in the order given when the prompt asks for an ``order``, the
    route with the most words of four letters and more in common with the question when it asks
    for a ``route``, ``{}`` otherwise. In text mode: the sentence of the ``[CTX n]`` blocks with
    the most words in common with the question, and its citation; a refusal when there are none.
    """
    everything = "\n".join(messages)
    last = messages[-1] if messages else ""
    if json:
        if '"order"' in everything:
            return orjson.dumps({"order": _candidates(everything)}).decode()
        if '"route"' in everything:
            routes = [
                (name, f"{name} {description}") for name, description in _ROUTE.findall(everything)
            ]
            route = _closest(last.rpartition("Question:")[2], routes, _LONG_WORD)
            return orjson.dumps({"route": route}).decode()
        return "{}"
    sentences = [
        (f"{sentence} [{number}]", sentence)
        for message in messages
        for number, text in _CONTEXT.findall(message)
        for sentence in map(str.strip, _SENTENCE_END.split(text))
        if sentence
    ]
    question = last.rpartition("</context>")[2]
    return _closest(question, sentences) or "I don't know: no document was given."


def _candidates(prompt: str) -> list[int]:
    """0, 1, 2, … as far as the prompt has lines that begin with ``[i]``, in this order."""
    expected = 0
    for number in _CANDIDATE.findall(prompt):
        expected += int(number) == expected
    return list(range(expected))


def _closest(
    question: str, options: Sequence[tuple[str, str]], word: re.Pattern[str] = _WORD
) -> str | None:
    """The name of the first (name, text) with the most words in common with the question."""
    asked = set(word.findall(question.lower()))

    def common(option: tuple[str, str]) -> int:
        return len(asked & set(word.findall(option[1].lower())))

    return max(options, key=common)[0] if options else None


def embed(text: str, dimensions: int) -> list[float]:
    """A unit vector of hashed words: texts with words in common lie close together."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [text]:
        digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
        vector[int.from_bytes(digest, "big") % dimensions] += 1.0
    length = math.hypot(*vector)
    return [value / length for value in vector]


def encode_base64(vector: Sequence[float]) -> str:
    """Little-endian 32-bit floats in Base64, the form that OpenAI's client asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
