"""Which documents are kept, and in which order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ragstream.adapters.rules import FusionOrder
from ragstream.domain.events import Evidence, Retrieved
from ragstream.domain.evidence import Document, SearchMode
from ragstream.domain.ports import Reranker
from ragstream.stages.rerank import Rerank
from tests.support.stages import (
    NOW,
    Library,
    SetClock,
    Told,
    evidence,
    names,
    retrieved,
    source,
)


async def rerank(reranker: Reranker, *documents: Document, **fields: object) -> Evidence:
    library = await Library.open()
    stage = Rerank(reranker, library.store, clock=SetClock())
    return (await stage(retrieved(*documents, **fields))).evidence


def release(name: str, doc_version: str, *requested: str, exact: bool = True) -> Document:
    relation = {
        "product": "kafka",
        "requested": requested or (doc_version,),
        "evidence": doc_version,
        "exact": exact,
    }
    return evidence(name, docVersion=doc_version, version=relation)


def asking_for(*releases: str) -> dict[str, object]:
    return {"product": "kafka", "releases": releases}


FOUR = tuple(evidence(name, score=score) for name, score in zip("abcd", (4, 2, 1, 1), strict=True))


async def test_what_the_reranker_says_is_what_is_kept() -> None:
    told = Told(order=[2, 0])
    kept = await rerank(told, *FOUR)
    assert names(kept.documents) == ["c", "a"]
    assert kept.ranked_by == "told"
    assert names(told.candidates) == ["a", "b", "c", "d"]


async def test_no_more_than_keep_are_kept() -> None:
    assert names((await rerank(Told(order=[3, 2, 1, 0]), *FOUR, keep=2)).documents) == ["d", "c"]
    assert names((await rerank(FusionOrder(), *FOUR, keep=3)).documents) == ["a", "b", "c"]


async def test_scores_are_the_rerankers_where_it_has_some() -> None:
    told = Told(order=[1, 0])
    assert [d.score for d in (await rerank(told, *FOUR)).documents] == [2, 4]
    told.scores = (0.9, 0.2)
    assert [d.score for d in (await rerank(told, *FOUR)).documents] == [0.9, 0.2]


async def test_the_order_of_fusion_has_scores_between_nought_and_one() -> None:
    kept = await rerank(FusionOrder(), *FOUR)
    scores = [document.score for document in kept.documents]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)
    assert kept.ranked_by == "fusion"


async def test_an_empty_judgement_leaves_nothing_whatever_was_asked_for() -> None:
    documents = [release("a", "2.8"), release("b", "3.7")]
    kept = await rerank(Told(order=[]), *documents, versions=asking_for("2.8", "3.7"))
    assert kept.documents == ()


async def test_nothing_found_is_nothing_kept() -> None:
    assert (await rerank(FusionOrder(), versions=asking_for("2.8"))).documents == ()


# --- a comparison needs evidence of each release -------------------------------------------

BOTH = (release("a28", "2.8"), release("b28", "2.8"), evidence("plain"), release("a37", "3.7"))


async def test_a_release_that_the_order_drops_comes_back() -> None:
    kept = await rerank(Told(order=[0, 1]), *BOTH, versions=asking_for("2.8", "3.7"))
    assert names(kept.documents) == ["a28", "b28", "a37"]


async def test_it_takes_the_place_of_the_last_that_can_be_done_without() -> None:
    kept = await rerank(Told(order=[0, 1, 2, 3]), *BOTH, keep=2, versions=asking_for("2.8", "3.7"))
    assert names(kept.documents) == ["a28", "a37"]
    kept = await rerank(Told(order=[2, 1, 0]), *BOTH, keep=2, versions=asking_for("2.8"))
    assert names(kept.documents) == ["plain", "b28"]


async def test_releases_without_a_candidate_are_done_without() -> None:
    kept = await rerank(Told(order=[2]), *BOTH, versions=asking_for("9.9", "3.7"))
    assert names(kept.documents) == ["plain", "a37"]


async def test_more_releases_than_places_keep_the_first_named() -> None:
    kept = await rerank(Told(order=[1, 0]), *BOTH, keep=1, versions=asking_for("3.7", "2.8"))
    assert names(kept.documents) == ["a37"]


async def test_without_releases_in_the_question_the_order_stands() -> None:
    assert names((await rerank(Told(order=[0, 1]), *BOTH)).documents) == ["a28", "b28"]


async def test_a_release_that_a_neighbour_represents_already_asks_for_no_other() -> None:
    below = release("below", "2.8", "2.9", exact=False)
    above = release("above", "3.0", "2.9", exact=False)
    told = Told(order=[1, 2])
    kept = await rerank(told, below, above, evidence("plain"), keep=2, versions=asking_for("2.9"))
    assert names(kept.documents) == ["above", "plain"]


# --- around it -----------------------------------------------------------------------------


async def test_documents_by_reference_are_read_before_they_are_judged() -> None:
    library = await Library.open()
    await library.add(source("kept", "The default of acks."), source("gone", "Gone by then."))
    (kept_id,) = await library.store.revisions("docs", "default", "kept")
    (gone_id,) = await library.store.revisions("docs", "default", "gone")
    await library.store.delete("docs", [gone_id])
    job = retrieved(
        evidence("gone", id=gone_id, text="", by_reference=True),
        evidence("kept", id=kept_id, score=0.5, private=True).model_copy(
            update={"text": "", "by_reference": True}
        ),
        evidence("along", "It came along."),
    )
    told = Told(order=[0, 1])
    result = (await Rerank(told, library.store, clock=SetClock())(job)).evidence
    assert [d.text for d in told.candidates] == ["The default of acks.", "It came along."]
    assert [d.by_reference for d in result.documents] == [False, False]
    assert (result.documents[0].private, result.documents[0].score) == (True, 0.5)


@pytest.mark.parametrize(("left", "given"), [(100, 8.0), (3, 3.0), (-5, 0.001)])
async def test_the_call_never_outlasts_the_deadline(left: float, given: float) -> None:
    told = Told(order=[0])
    await rerank(told, *FOUR, deadline=NOW + timedelta(seconds=left))
    assert told.timeout == given


async def test_the_rest_goes_on_as_it_was() -> None:
    library = await Library.open()
    given = retrieved(*FOUR, mode=SearchMode.SPARSE_ONLY, noted=5, tenant="acme")
    given = Retrieved.model_validate({**dict(given), "added_later": "kept"})
    result = await Rerank(FusionOrder(), library.store, clock=SetClock())(given)
    assert (result.query, result.routing) == (given.query, given.routing)
    assert (result.model_extra or {})["added_later"] == "kept"
    assert (result.evidence.mode, result.evidence.corpus_generation) == (SearchMode.SPARSE_ONLY, 5)
