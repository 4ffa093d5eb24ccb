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
_CONTEXT = re.compile(r"\[CTX 1\][^\n]*\n+(.+?)(?=\n\s*\[CTX \d+\]|\Z)", re.DOTALL)
_ROUTE = re.compile(r"^- (\S+): (.*)$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")
_WORD = re.compile(r"\w+")


def chat_text(system: str, user: str, everything: str, *, json: bool) -> str:
    """A reply to a chat request.

    In JSON mode: the candidates in the order given when the prompt asks for an ``order``, the
    route with the most words in common with the question when it asks for a ``route``, ``{}``
    otherwise. In text mode: the first sentence of ``[CTX 1]`` with its citation, or a refusal
    when there is no context.
    """
    if json:
        if '"order"' in everything:
            numbers = sorted({int(number) for number in _CANDIDATE.findall(user or everything)})
            return orjson.dumps({"order": numbers}).decode()
        if '"route"' in everything:
            return orjson.dumps({"route": _closest_route(everything, user)}).decode()
        return "{}"
    context = _CONTEXT.search(everything)
    if context is None:
        return "I don't know: no document was given."
    sentence = _SENTENCE_END.split(context[1].strip(), maxsplit=1)[0].strip()
    return f"{sentence} [1]"


def _closest_route(prompt: str, question: str) -> str | None:
    words = set(_WORD.findall(question.lower()))
    best, most = None, -1
    for name, description in _ROUTE.findall(prompt):
        common = len(words & set(_WORD.findall(f"{name} {description}".lower())))
        if common > most:
            best, most = name, common
    return best


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
