"""English stemming: inflections only.

Plurals, ``-ed`` and ``-ing`` are folded together, after steps 1a and 1b of Porter's algorithm
(M. F. Porter, 1980). Derivations (``-ation``, ``-ness``, …) keep their form: in technical text
folding them costs more precision than it brings recall.
"""

from __future__ import annotations

import re

__all__ = ["stem"]

_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"..([bdfgmnprt])\1$")


def stem(word: str) -> str:
    """Stem of a lower-case word. Words with digits or outside ASCII are returned as they are."""
    if len(word) <= 3 or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    base = word.removesuffix("ing") if word.endswith("ing") else word.removesuffix("ed")
    if base == word or base.endswith("e") or len(base) < 2 or not _VOWEL.search(base):
        return _ending(word)
    if len(base) == 2:  # using, used: use
        return base + "e" if not _VOWEL.match(base[1]) else base
    return _ending(base[:-1] if _DOUBLED.search(base) else base)


def _singular(word: str) -> str:
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _ending(word: str) -> str:
    """One form for what may have lost an ``e`` (``caching``) or shows a ``y`` as ``i``."""
    if len(word) > 3 and word.endswith("i"):
        return word[:-1] + "y"
    if len(word) > 3 and word.endswith("e") and not word.endswith("ee"):
        return word[:-1]
    return word
