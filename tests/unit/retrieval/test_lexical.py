from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.rules import CoverageOrder
from ragstream.domain.evidence import Document, Metadata
from ragstream.retrieval.lexical import coverage, coverage_scores


def document(id: str, title: str, text: str, score: float = 1.0) -> Document:
    return Document(
        id=id,
        document_id=id,
        collection="docs",
        text=text,
        score=score,
        metadata=Metadata(title=title),
    )


ACKS = document("acks", "producer configuration: acks", "Acknowledgments.\nDefault: all", 0.5)
LINGER = document("linger", "producer configuration: linger.ms", "Default: 0", 1.0)
GUIDE = document("guide", "Upgrading", "The default of many settings, acks among them.", 0.6)
QUESTION = "What is the default of acks?"


def test_the_rare_word_decides() -> None:
    acks, linger, guide = coverage(QUESTION, [ACKS, LINGER, GUIDE])
    assert acks > guide > linger


def test_a_title_says_more_than_a_body() -> None:
    title, body, neither = coverage(
        "acks", [ACKS, GUIDE, document("x", "Streams", "Nothing of it.")]
    )
    assert title == 1.0
    assert 0 < body < 1
    assert neither == 0


def test_what_all_have_in_common_decides_nothing() -> None:
    assert coverage("default", [ACKS, LINGER]) == [0.0, 0.0]


async def test_order_blends_coverage_with_the_given_score() -> None:
    ranking = await CoverageOrder().rerank(QUESTION, [LINGER, GUIDE, ACKS], keep=2, timeout=1)
    assert ranking.ranked_by == "coverage"
    assert ranking.order == (2, 1)
    assert list(ranking.scores) == sorted(ranking.scores, reverse=True)


async def test_no_candidates() -> None:
    ranking = await CoverageOrder().rerank(QUESTION, [], keep=3, timeout=1)
    assert ranking.order == ()


@given(
    st.lists(st.tuples(st.text(max_size=30), st.floats(-1, 5)), max_size=8), st.text(max_size=30)
)
def test_scores_lie_between_0_and_1(given_: list[tuple[str, float]], question: str) -> None:
    documents = [document(str(i), "", text, score) for i, (text, score) in enumerate(given_)]
    scores = coverage_scores(question, documents)
    assert len(scores) == len(documents)
    assert all(0 <= score <= 1 for score in scores)
