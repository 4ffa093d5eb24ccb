"""Answering without a language model: pick the sentences that answer, and cite them.

A sentence is scored by the share of the question that it covers (terms weighted by inverse
document frequency over the candidate sentences; its document's title and headings count in
part), by its similarity to the question where an encoder is at hand, and by its document's rank.
Below a threshold nothing is said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

from ragstream.domain.evidence import Document
from ragstream.prompting.citations import quoted
from ragstream.prompting.sentences import is_value_line, sentences

__all__ = ["Candidate", "Extraction", "Shortlist", "extract", "shortlist"]

#: Text to index terms.
Analyze = Callable[[str], Sequence[str]]
#: Similarities (-1..1) of texts to the question.
Similarity = Callable[[Sequence[str]], Sequence[float]]

MAX_SENTENCES = 3
SHORTLIST = 24  # sentences that are compared with an encoder
MAX_LENGTH = 600  # characters; longer ones (tables, code) are no sentences to quote

_CONTEXT = 0.6  # what a term in the title or a heading counts, compared with the sentence itself
_PRIOR = 0.1  # of the first document; falls with the rank
_VALUE_BONUS = 0.3
_KIND_BONUS = 0.08
_DENSE = 0.4
# Measured on XQuAD: each lets 5 to 8 % of unanswerable questions pass and refuses 2 to 5 % of the
# answerable ones. Bigrams of Chinese match less often than words.
_MIN_COVERAGE = 0.38
_MIN_COVERAGE_CJK = 0.26
_MIN_WITH_DENSE = 0.44
_FOLLOWS = 0.72  # how good a further sentence must be, relative to the first
_SAME = 0.6  # share of terms from which two sentences say the same

_STOP_WORDS = (
    "a about an and any are as at be been being but by can could did do does each for from had "
    "has have how i if in into is it its may me my of on or our s shall should so some than that "
    "the their them there these they this those to us use used was we were what when where which "
    "who whom whose why will with would you your tell explain describe please give show side"
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ASKS_NUMBER = re.compile(
    r"\b(?:how (?:many|much|long|large|big|old|often|far|tall|high)|when|what (?:year|number|"
    r"percentage|date|size|age)|which (?:year|date|port))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence of document ``number`` (from 1). ``embed_text`` has the title in front;
    ``covers``: terms of the question that it or its title has."""

    text: str
    number: int
    position: int
    embed_text: str
    coverage: float
    bonus: float
    terms: frozenset[str]
    covers: frozenset[str]
    value: bool


@dataclass(frozen=True, slots=True)
class Extraction:
    """``text`` cites documents as ``[n]``. ``scores`` belong to ``sentences``."""

    text: str
    sentences: tuple[str, ...]
    numbers: tuple[int, ...]
    scores: tuple[float, ...]


def extract(
    question: str,
    documents: Sequence[Document],
    analyze: Analyze,
    similarity: Similarity | None = None,
) -> Extraction | None:
    """Answer from the documents, given best first; None when they do not answer."""
    listed = shortlist(question, documents, analyze)
    return listed.choose(similarity(listed.texts) if similarity and listed.texts else None)


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The sentences that may answer, best first by what can be told without an encoder."""

    candidates: tuple[Candidate, ...]
    documents: tuple[Document, ...]
    cjk: bool = False

    @property
    def texts(self) -> list[str]:
        """What to compare with the question."""
        return [candidate.embed_text for candidate in self.candidates]

    def choose(self, similarities: Sequence[float] | None = None) -> Extraction | None:
        """At most three sentences, or None. ``similarities``: of ``texts``, in order."""
        scored = sorted(
            (
                (
                    _score(candidate, None if similarities is None else similarities[index]),
                    candidate,
                )
                for index, candidate in enumerate(self.candidates)
            ),
            key=lambda pair: -pair[0],
        )
        if not scored:
            return None
        threshold = _MIN_COVERAGE_CJK if self.cjk else _MIN_COVERAGE
        if similarities is not None:
            threshold = _MIN_WITH_DENSE
        best_score, best = scored[0]
        if best_score < threshold:
            return None
        chosen = [(best_score, best)]
        for score, candidate in scored[1:]:
            if len(chosen) == MAX_SENTENCES or score < best_score * _FOLLOWS:
                break
            if _adds(candidate, [one for _, one in chosen]):
                chosen.append((score, candidate))
        return self._write(chosen)

    def _write(self, chosen: Sequence[tuple[float, Candidate]]) -> Extraction:
        """Documents in the order they were chosen, sentences of one in their own order."""
        order = list(dict.fromkeys(candidate.number for _, candidate in chosen))
        arranged = sorted(chosen, key=lambda pair: (order.index(pair[1].number), pair[1].position))
        cited = [self.documents[number - 1] for number in order]
        name_release = len({document.metadata.doc_version for document in cited}) > 1 or any(
            document.version is not None and not document.version.exact for document in cited
        )
        lines = [self._line(candidate, name_release) for _, candidate in arranged]
        return Extraction(
            text=_join(lines),
            sentences=tuple(candidate.text for _, candidate in arranged),
            numbers=tuple(order),
            scores=tuple(score for score, _ in arranged),
        )

    def _line(self, candidate: Candidate, name_release: bool) -> str:
        metadata = self.documents[candidate.number - 1].metadata
        release = ""
        if name_release and metadata.doc_version:
            release = f"{metadata.product or ''} {metadata.doc_version}".strip()
        about = metadata.title or " ".join(metadata.headings[-1:])
        said = f"{quoted(candidate.text)} [{candidate.number}]"
        if candidate.value and about:
            about = f"{about} ({release})" if release else about
            return f"{quoted(about)} – {said}"
        return f"{release}: {said}" if release else said


def shortlist(question: str, documents: Sequence[Document], analyze: Analyze) -> Shortlist:
    """Split the documents into sentences and keep those that cover the question best."""
    asked = _content_terms(question, analyze)
    plain = [
        (number, position, text, document)
        for number, document in enumerate(documents, start=1)
        for position, text in enumerate(sentences(document.text))
        if len(text) <= MAX_LENGTH
    ]
    own = [frozenset(analyze(text)) for _, _, text, _ in plain]
    context = {
        number: frozenset(analyze(_about(document)))
        for number, document in enumerate(documents, start=1)
    }
    weights = _weights(
        asked, [terms | context[entry[0]] for terms, entry in zip(own, plain, strict=True)]
    )
    wants_number = _ASKS_NUMBER.search(question) is not None
    candidates = []
    for (number, position, text, document), terms in zip(plain, own, strict=True):
        value = is_value_line(text)
        bonus = _PRIOR / number
        if value and asked.issuperset(_content_terms(value["label"], analyze)):
            bonus += _VALUE_BONUS
        if wants_number and re.search(r"\d", text):
            bonus += _KIND_BONUS
        candidates.append(
            Candidate(
                text=text,
                number=number,
                position=position,
                embed_text=f"{document.metadata.title or ''}\n{text}".strip(),
                coverage=_coverage(weights, terms, context[number]),
                bonus=bonus,
                terms=terms,
                covers=asked & (terms | context[number]),
                value=value is not None,
            )
        )
    candidates.sort(key=lambda candidate: -(candidate.coverage + candidate.bonus))
    return Shortlist(
        tuple(candidates[:SHORTLIST]), tuple(documents), cjk=bool(_CJK.search(question))
    )


def _about(document: Document) -> str:
    metadata = document.metadata
    release = f"{metadata.product or ''} {metadata.doc_version or ''}"
    return " ".join([metadata.title or "", *metadata.headings, release])


def _content_terms(text: str, analyze: Analyze) -> frozenset[str]:
    terms = frozenset(analyze(text))
    return terms.difference(analyze(_STOP_WORDS)) or terms


def _weights(asked: frozenset[str], candidates: Sequence[frozenset[str]]) -> dict[str, float]:
    """Inverse document frequency of each term of the question."""
    found = Counter(term for terms in candidates for term in asked & terms)
    return {term: log(1 + len(candidates) / (1 + found[term])) for term in asked}


def _coverage(weights: dict[str, float], terms: frozenset[str], context: frozenset[str]) -> float:
    total = sum(weights.values())
    if not total:
        return 0.0
    covered = sum(
        weight * (1.0 if term in terms else _CONTEXT if term in context else 0.0)
        for term, weight in weights.items()
    )
    return covered / total


def _score(candidate: Candidate, similarity: float | None) -> float:
    if similarity is None:
        return candidate.coverage + candidate.bonus
    dense = min(max(similarity, 0.0), 1.0)
    return (1 - _DENSE) * candidate.coverage + _DENSE * dense + candidate.bonus


def _adds(candidate: Candidate, chosen: Sequence[Candidate]) -> bool:
    """Whether it says something that the chosen ones do not.

    Beside a value only that of another document does, if it is about something else that was
    asked (the other release of a comparison) or differs though nothing tells them apart.
    """
    first = chosen[0]
    if first.value:
        others = [one for one in chosen if one.number == candidate.number]
        more = candidate.covers.difference(*(one.covers for one in chosen))
        differs = candidate.covers == first.covers and candidate.text not in {
            one.text for one in chosen
        }
        return candidate.value and not others and (bool(more) or differs)
    for one in chosen:
        shared = len(candidate.terms & one.terms)
        if shared >= _SAME * max(1, min(len(candidate.terms), len(one.terms))):
            return False
    return True


def _join(lines: Sequence[str]) -> str:
    """One paragraph where every line is a sentence, else a line each."""
    prose = all(re.search(r"[.!?。！？]['\"”’)\]]* \[\d+\]$", line) for line in lines)
    return (" " if prose else "\n").join(lines)
