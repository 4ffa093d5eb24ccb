from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.domain.evidence import Document, Metadata, Range
from ragstream.retrieval.coverage import CoverageImpossible, cover_releases
from ragstream.retrieval.decay import by_recency, decay, to_unit
from ragstream.retrieval.dedupe import dedupe
from ragstream.retrieval.fusion import fuse_by_rank, merge_points, min_max, rrf_score
from ragstream.retrieval.mmr import mmr_order
from ragstream.retrieval.self_query import ExtractionRejected, inferred_filter

NOW = datetime(2026, 1, 10, tzinfo=UTC)


def doc(name: str, score: float = 0.0, **metadata: object) -> Document:
    return Document(
        id=name,
        document_id=name,
        collection="docs",
        text=name,
        score=score,
        metadata=Metadata.model_validate(metadata),
    )


def ids(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]


def test_fusion_is_by_rank_not_by_score() -> None:
    loud = [doc("a", 900.0), doc("b", 800.0)]
    quiet = [doc("b", 0.2), doc("c", 0.1)]
    fused = fuse_by_rank([loud, quiet], k=60)
    assert ids(fused) == ["b", "a", "c"]
    assert fused[0].score == pytest.approx(rrf_score(60, [1, 0]))
    assert ids(fuse_by_rank([loud, quiet], limit=1)) == ["b"]


def test_merge_keeps_the_higher_score_and_the_first_of_equals() -> None:
    merged = merge_points(
        {"books": [doc("a", 0.5), doc("b", 0.1)], "docs": [doc("a", 0.5), doc("b", 0.7)]}, 5
    )
    assert [(name, point.id) for name, point in merged] == [("docs", "b"), ("books", "a")]


def test_min_max() -> None:
    assert min_max([2.0, 4.0, 3.0]) == [0.0, 1.0, 0.5]
    assert min_max([1.0, 1.0]) == [1.0, 1.0]
    assert min_max([]) == []


def test_dedupe_by_release_and_hash_then_by_url() -> None:
    kept = dedupe(
        [
            doc("a", hash="h", docVersion="21"),
            doc("b", hash="h", docVersion="24"),
            doc("c", hash="h", docVersion="21", url="https://x/other"),
            doc("d", url="https://x/p"),
            doc("e", url=" https://x/p "),
            doc("f", hash=" ", url="https://x/p"),
            doc("g"),
            doc("h"),
        ]
    )
    assert ids(kept) == ["a", "b", "d", "g", "h"]


def release(name: str) -> str:
    return name[:2]


def test_coverage_appends_while_there_is_room() -> None:
    assert cover_releases(["21a"], ["21a", "24a"], ["21", "24"], 3, release) == ["21a", "24a"]


def test_coverage_replaces_what_no_release_depends_on() -> None:
    covered = cover_releases(["21a", "99x", "21b"], ["24a", "25a"], ["21", "24", "25"], 3, release)
    assert covered == ["21a", "25a", "24a"]


def test_coverage_that_is_impossible() -> None:
    with pytest.raises(CoverageImpossible):
        cover_releases(["21a"], ["21a", "24a"], ["21", "24"], 1, release)
    with pytest.raises(CoverageImpossible):
        cover_releases(["21a"], ["21a"], ["21", "24"], 2, release)


@given(
    st.lists(st.sampled_from(["21a", "21b", "24a", "25a", "99x", "99y"]), unique=True, max_size=6),
    st.integers(3, 6),
)
def test_every_release_is_covered(ranked: list[str], limit: int) -> None:
    pool = ["25a", "24a", "21a", "21b"]
    covered = cover_releases(ranked, pool, ["21", "24", "25"], limit, release)
    assert {release(name) for name in covered} >= {"21", "24", "25"}
    assert len(covered) <= limit
    assert len(set(covered)) == len(covered)


def test_undated_documents_keep_their_score() -> None:
    ranked = by_recency([doc("u", 0.5), doc("o", 0.6, publishedAt=NOW - timedelta(days=90))], NOW)
    assert [(d.id, d.score) for d in ranked] == [("u", 0.5), ("o", 0.3)]


def test_age_never_helps_a_negative_logit() -> None:
    old = doc("old", -1.0, publishedAt=NOW - timedelta(days=400))
    ranked = by_recency([old, doc("new", -1.0, publishedAt=NOW)], NOW)
    assert ids(ranked) == ["new", "old"]
    assert all(0 < document.score < 1 for document in ranked)


@given(st.floats(-1e6, 1e6))
def test_decay_and_unit_stay_in_bounds(value: float) -> None:
    assert 0.5 <= decay(value) <= 1.0
    assert 0.0 <= to_unit(value) <= 1.0


def test_inferred_filter() -> None:
    inferred = inferred_filter({"days_back": 3, "source": " Reuters "}, NOW)
    assert inferred.as_filters() == {
        "publishedAt": Range(gte=NOW - timedelta(days=3)),
        "sourceName": "Reuters",
    }
    assert inferred_filter({"days_back": None, "source": " "}, NOW).as_filters() == {}
    assert inferred_filter({"days_back": 0}, NOW).as_filters() == {}


@pytest.mark.parametrize(
    "extraction", [{"days_back": -1}, {"days_back": "3"}, {"days_back": True}, {"source": 7}]
)
def test_malformed_extraction(extraction: dict[str, object]) -> None:
    with pytest.raises(ExtractionRejected):
        inferred_filter(extraction, NOW)


def test_mmr_weighs_relevance_against_likeness() -> None:
    likeness = [[1.0, 0.95, 0.0], [0.95, 1.0, 0.0], [0.0, 0.0, 1.0]]
    relevance = [0.9, 0.89, 0.4]

    def order(lambda_: float) -> list[int]:
        return mmr_order(relevance, lambda i, j: likeness[i][j], limit=2, lambda_=lambda_)

    assert order(1.0) == [0, 1]
    assert order(0.5) == [0, 2]
    with pytest.raises(ValueError, match="lambda"):
        order(1.01)
