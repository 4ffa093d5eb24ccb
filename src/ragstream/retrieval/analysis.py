"""Text to index terms.

``standard`` is the grammar of Lucene's StandardTokenizer (Unicode word segmentation, UAX #29,
with emoji sequences of UTS #51), lower-cased, without stop words. ``default`` builds on it for
better recall: English is stemmed, identifiers are kept whole and split into their parts, and
Chinese, Japanese and Korean are indexed as bigrams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

import regex

from ragstream.retrieval.stemming import stem

__all__ = ["ANALYZERS", "MAX_TOKEN_LENGTH", "Analyzer", "default", "standard", "standard_tokens"]

#: Text to terms, in order, repetitions kept.
Analyzer = Callable[[str], list[str]]

MAX_TOKEN_LENGTH = 255  # UTF-16 code units, as Lucene counts; longer tokens are cut up
MIN_TERM_LENGTH = 2  # UTF-16 code units
_WINDOW = 1024
_LOOKAHEAD = 32


def _grammar() -> regex.Pattern[str]:
    # A base character takes what extends it along (rule WB4).
    marks = r"[[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]--\p{Emoji_Modifier}]*+"
    letter = rf"[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]{marks}"
    digit = rf"\p{{WB=Numeric}}{marks}"
    kana = rf"\p{{WB=Katakana}}{marks}"
    low = rf"\p{{WB=ExtendNumLet}}{marks}"
    mid_letter = rf"[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{marks}"
    mid_digit = rf"[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{marks}"
    hebrew = rf"(?<=\p{{WB=Hebrew_Letter}}{marks.removesuffix('+')})"
    quoted = (
        rf"{hebrew}\p{{WB=Double_Quote}}{marks}(?=\p{{WB=Hebrew_Letter}})"
        rf"|{hebrew}\p{{WB=Single_Quote}}{marks}"
    )
    letters = rf"{letter}(?:{letter}|{mid_letter}{letter}|{quoted})*+"
    digits = rf"{digit}(?:{digit}|{mid_digit}{digit})*+"
    piece = rf"(?:(?:{letters}|{digits})++|(?:{kana})++)"
    word = rf"(?:{low})*+{piece}(?:(?:{low})++{piece})*+(?:{low})*+"

    # More joiners in a row than a few are noise, and following them takes quadratic time.
    # Presentation selectors and joiners are part of the sequence, not of a base character.
    no_pictograph = r"[0-9#*\p{WB=Regional_Indicator}\p{Emoji_Modifier}]"
    pictograph = rf"[\p{{Extended_Pictographic}}[\p{{Emoji}}--{no_pictograph}]]"
    joiner = rf"\u200d(?!\u200d{{0,3}}(?:{pictograph}|\p{{Emoji_Modifier}}))"
    own = r"[\ufe0e\ufe0f\u200d\U000e0020-\U000e007f\p{Emoji_Modifier}]"
    glue = rf"(?:[[\p{{WB=Extend}}\p{{WB=Format}}]--{own}]|{joiner})*"
    element = (
        rf"(?:(?:\p{{Emoji_Modifier_Base}}{glue})?\p{{Emoji_Modifier}}{glue}"
        rf"|{pictograph}{glue}\ufe0f?)"
    )
    emoji = (
        rf"\u200d{{0,3}}+{element}(?:[\U000e0020-\U000e007e]+\U000e007f|(?:\u200d{{1,4}}{element})*+)"
        rf"|[#*]{glue}\ufe0f?\u20e3{glue}"
        rf"|(?:\p{{WB=Regional_Indicator}}{marks}){{2}}"
    )
    tokens = [
        word,
        emoji,
        rf"(?:\p{{LB=SA}}{marks})+",  # Thai, Lao, Khmer, Burmese: kept together
        rf"\p{{Script=Han}}{marks}",
        rf"\p{{Script=Hiragana}}{marks}",
    ]
    return regex.compile("|".join(f"(?:{token})" for token in tokens), regex.V1)


_TOKEN = _grammar()
# The same grammar where only ASCII occurs; about ten times faster.
_ASCII_LETTERS = r"[a-z](?:[a-z]|[:.'][a-z])*+"
_ASCII_DIGITS = r"[0-9](?:[0-9]|[.,;'][0-9])*+"
_ASCII_PIECE = rf"(?:{_ASCII_LETTERS}|{_ASCII_DIGITS})++"
_ASCII_TOKEN = regex.compile(rf"_*+{_ASCII_PIECE}(?:_++{_ASCII_PIECE})*+_*+", regex.V1 | regex.I)


def _units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _cut(text: str, start: int) -> int:
    """End of the longest stretch from ``start`` that fits a token."""
    end, units = start, 0
    while end < len(text):
        units += 2 if text[end] > "\uffff" else 1
        if units > MAX_TOKEN_LENGTH:
            break
        end += 1
    return end


def standard_tokens(text: str) -> list[str]:
    """Tokens of Lucene's StandardAnalyzer, the short ones included."""
    lowered = text.lower()
    pattern = _ASCII_TOKEN if lowered.isascii() else _TOKEN
    return [match[0] for match in _matches(pattern, lowered)]


def _matches(pattern: regex.Pattern[str], text: str) -> Iterator[regex.Match[str]]:
    """Tokens of at most ``MAX_TOKEN_LENGTH``, looking no further ahead than a token can reach,
    so that a text without a break takes no longer than others."""
    position = 0
    while position < len(text):
        end = min(position + _WINDOW, len(text))
        match = pattern.search(text, position, end)
        if match is None:
            position = end if end == len(text) else end - _LOOKAHEAD
        elif end < len(text) and match.end() > end - _LOOKAHEAD and match.start() > position:
            position = match.start()  # may go on behind the window
        else:
            if _units(match[0]) > MAX_TOKEN_LENGTH:
                match = pattern.match(text, match.start(), _cut(text, match.start())) or match
            yield match
            position = match.end()


def standard(text: str) -> list[str]:
    """Tokens of two UTF-16 code units or more."""
    return [token for token in standard_tokens(text) if _units(token) >= MIN_TERM_LENGTH]


_CJK = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}ー々]+", regex.V1
)
_COMPOUND = regex.compile(r"[._:'\u2019]")
_HUMPS = regex.compile(
    r"\p{Lu}+(?=\p{Lu}\p{Ll})|\p{Lu}?\p{Ll}+|\p{Lu}+|\p{N}+|[^\p{Lu}\p{Ll}\p{N}._:'\u2019]+",
    regex.V1,
)
_POSSESSIVE = ("'s", "\u2019s")


def default(text: str) -> list[str]:
    """Terms for the project's own index: see the head of the module."""
    return list(_terms(text))


def _terms(text: str) -> Iterator[str]:
    position = 0
    for run in _CJK.finditer(text):
        yield from _words(text[position : run.start()])
        yield from _bigrams(run[0])
        position = run.end()
    yield from _words(text[position:])


def _bigrams(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for first, second in pairwise(run):
        yield first + second


def _words(text: str) -> Iterator[str]:
    pattern = _ASCII_TOKEN if text.isascii() else _TOKEN
    for match in _matches(pattern, text):
        yield from _word_terms(match[0])


@lru_cache(maxsize=65_536)
def _word_terms(token: str) -> tuple[str, ...]:
    """The token, and its parts if it is an identifier."""
    if token.endswith(_POSSESSIVE):
        token = token[:-2]
    whole = token.lower()
    parts = [part.lower() for part in _HUMPS.findall(token)]
    if (
        len(parts) < 2
        or whole == token.upper()
        or not (_COMPOUND.search(token) or _is_humped(token))
    ):
        return (stem(whole),)
    terms = dict.fromkeys([whole, *(stem(part) for part in parts if part)])
    return tuple(terms)


def _is_humped(token: str) -> bool:
    """``fetchMinBytes`` and ``java25``, but not ``2nd`` or ``IDs``."""
    return bool(regex.search(r"\p{Ll}\p{Lu}|\p{Lu}\p{Lu}\p{Ll}{2}|\p{L}{2}\p{N}", token))


ANALYZERS: dict[str, Analyzer] = {"standard": standard, "default": default}
