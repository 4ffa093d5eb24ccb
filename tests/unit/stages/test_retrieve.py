"""What is found for a question, and for whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.memory_vectors import MemoryVectorStore
from ragstream.domain.errors import PartialFailure
from ragstream.domain.events import Evidence, Routed
from ragstream.domain.evidence import Document, Metadata, SearchHits, SearchMode, SearchRequest
from ragstream.stages.retrieve import Retrieve
from tests.support.stages import Library, evidence, names, routed, source

ACKS_28 = source("acks-2.8", "The default of acks is one.", product="kafka", docVersion="2.8")
ACKS_37 = source("acks-3.7", "The default of acks is all.", product="kafka", docVersion="3.7")
GROUPS = source("groups", "Members of a group share the partitions, whatever acks they use.")


@pytest.fixture
async def library() -> Library:
    return await Library.open()


def stage(library: Library, **options: object) -> Retrieve:
    return Retrieve(
        library.store,
        dense=library.dense,
        sparse=library.sparse,
        generations=library.generations,
        **options,  # type: ignore[arg-type]
    )


async def find(
    library: Library, text: str = "What is the default of acks?", **fields: object
) -> Evidence:
    return (await stage(library)(routed(text, **fields))).evidence


def asking_for(*releases: str, product: str = "kafka") -> dict[str, object]:
    return {"product": product, "releases": releases}


async def test_the_best_documents_come_first_and_no_more_than_asked_for(library: Library) -> None:
    await library.add(
        source("best", "The default of acks."),
        source("good", "There is a default."),
        source("none", "Something else entirely."),
    )
    found = await find(library, "default of acks", candidates=2)
    assert names(found.documents) == ["best", "good"]
    assert found.documents[0].score > found.documents[1].score
    assert (found.mode, found.encoder, found.considered) == (SearchMode.HYBRID, "words", 2)
    assert found.documents[0].text == "The default of acks."


async def test_a_route_without_collections_searches_nothing(library: Library) -> None:
    await library.add(ACKS_28)
    found = await find(library, collections=(), corpus_generation=4)
    assert (found.documents, found.corpus_generation) == ((), 4)
    assert library.dense.queries == []


async def test_a_question_without_terms_is_searched_by_meaning(library: Library) -> None:
    await library.add(ACKS_28)
    found = await find(library, "???")
    assert found.mode is SearchMode.DENSE_ONLY
    assert names(found.documents) == ["acks-2.8"]


async def test_the_boosted_text_is_what_is_encoded(library: Library) -> None:
    await find(library, "acks?", search_text="Kafka 2.8: acks?")
    assert library.dense.queries == ["Kafka 2.8: acks?"]


# --- who sees what -------------------------------------------------------------------------


async def test_private_documents_are_for_their_readers(library: Library) -> None:
    await library.add(
        source("public", "The default of acks."),
        source("anns", "The default of acks, says Ann.", access=["ann", "eve"]),
    )
    for user, seen in {"ann": {"public", "anns"}, "bob": {"public"}, None: {"public"}}.items():
        found = await find(library, user_id=user)
        assert set(names(found.documents)) == seen
        assert {d.document_id for d in found.documents if d.private} == seen - {"public"}


async def test_a_private_route_sees_the_users_own_documents_only(library: Library) -> None:
    await library.add(
        source("public", "The default of acks."),
        source("anns", "The default of acks, says Ann.", access=["ann"]),
    )
    for user, seen in {"ann": ["anns"], "bob": [], None: []}.items():
        assert names((await find(library, user_id=user, private=True)).documents) == seen


async def test_tenants_are_apart(library: Library) -> None:
    await library.add(source("theirs", "The default of acks.", tenant="other"))
    assert (await find(library)).documents == ()
    assert names((await find(library, tenant="other")).documents) == ["theirs"]


async def test_filters_hold(library: Library) -> None:
    await library.add(
        source("guide", "The default of acks.", docType="guide"),
        source("blog", "The default of acks, once more.", docType="blog"),
    )
    found = await find(library, filters={"docType": "blog"})
    assert names(found.documents) == ["blog"]


async def test_two_filters_on_one_field_both_hold(library: Library) -> None:
    await library.add(
        source("guide", "The default of acks.", docType="guide"),
        source("blog", "The default of acks, once more.", docType="blog"),
    )
    # The route's, and one that a query spells otherwise.
    found = await find(library, filters={"docType": "guide", "doc_type": ["guide", "blog"]})
    assert names(found.documents) == ["guide"]


# --- releases ------------------------------------------------------------------------------


async def test_other_releases_are_hidden_and_unversioned_documents_never(library: Library) -> None:
    await library.add(ACKS_28, ACKS_37, GROUPS)
    found = await find(library, versions=asking_for("2.8"))
    assert set(names(found.documents)) == {"acks-2.8", "groups"}
    by_name = {document.document_id: document for document in found.documents}
    assert by_name["groups"].version is None
    version = by_name["acks-2.8"].version
    assert version is not None
    assert (version.product, version.requested, version.evidence) == ("kafka", ("2.8",), "2.8")
    assert version.exact


async def test_a_release_that_is_not_indexed_is_served_by_its_neighbours(library: Library) -> None:
    await library.add(
        ACKS_28,
        ACKS_37,
        source("acks-1.0", "The default of acks.", product="kafka", docVersion="1.0"),
    )
    found = await find(library, versions=asking_for("3.0"))
    assert set(names(found.documents)) == {"acks-2.8", "acks-3.7"}
    relations = {(d.version.requested, d.version.exact) for d in found.documents if d.version}
    assert relations == {(("3.0",), False)}


async def test_each_document_tells_the_releases_that_it_serves(library: Library) -> None:
    await library.add(ACKS_28, ACKS_37)
    found = await find(library, versions=asking_for("2.8", "2.9"))
    served = {d.document_id: d.version.requested for d in found.documents if d.version}
    assert served == {"acks-2.8": ("2.8", "2.9"), "acks-3.7": ("2.9",)}


async def test_a_product_without_indexed_releases_hides_nothing(library: Library) -> None:
    await library.add(ACKS_28, GROUPS)
    found = await find(library, versions=asking_for("21", product="java"))
    assert set(names(found.documents)) == {"acks-2.8", "groups"}
    assert all(document.version is None for document in found.documents)


async def test_the_same_release_of_another_product_is_no_evidence(library: Library) -> None:
    flink = source("flink", "The default of acks.", product="flink", docVersion="2.8")
    await library.add(ACKS_28, flink)
    found = await find(library, versions=asking_for("2.8"))
    assert names(found.documents) == ["acks-2.8"]


# --- one list from several -----------------------------------------------------------------


async def test_the_same_text_stands_once(library: Library) -> None:
    text = "The default of acks is one."
    await library.add(
        source("a", text, url="https://docs.example/a"),
        source("b", text, url="https://docs.example/b"),
        source("c", text, kind="articles"),
    )
    found = await find(library, collections=("docs", "articles"))
    assert len(found.documents) == 1
    assert found.considered == 3


async def test_the_same_text_stands_once_for_each_release(library: Library) -> None:
    text = "The default of acks is one."
    releases = ("2.7", "2.8", "2.9")
    await library.add(*(source(f"acks-{r}", text, product="kafka", docVersion=r) for r in releases))
    found = await find(library, versions=asking_for("2.7", "2.8"))
    assert sorted(names(found.documents)) == ["acks-2.7", "acks-2.8"]


async def test_the_best_of_each_collection_comes_before_the_rest(library: Library) -> None:
    await library.add(
        source("docs-1", "acks acks acks"),
        source("docs-2", "acks and much else besides"),
        source("articles-1", "a word on acks and on everything else too", kind="articles"),
        source("articles-2", "nothing on the matter", kind="articles"),
    )
    found = await find(library, "acks", collections=("docs", "articles"))
    assert set(names(found.documents)[:2]) == {"docs-1", "articles-1"}


async def test_news_decay_and_documentation_does_not(library: Library) -> None:
    await library.add(
        source("old", "acks acks", publishedAt="2025-06-01T00:00:00Z"),
        source("new", "acks", publishedAt="2026-01-09T00:00:00Z"),
    )
    assert names((await find(library, "acks acks")).documents) == ["old", "new"]
    assert names((await find(library, "acks acks", decay=True)).documents) == ["new", "old"]


# --- what goes on --------------------------------------------------------------------------


class _Fixed(MemoryVectorStore):
    """Finds what it is told to find; something happens meanwhile."""

    def __init__(self, *documents: Document) -> None:
        super().__init__()
        self.documents = documents
        self.library: Library | None = None

    async def search(self, request: SearchRequest) -> SearchHits:
        if self.library is not None:
            await self.library.generations.bump("default")
        return SearchHits(SearchMode.HYBRID, {"docs": self.documents})


async def test_the_corpus_generation_is_that_before_the_search() -> None:
    store = _Fixed(evidence("a"))
    library = store.library = await Library.open(store)
    await library.generations.bump("default")
    assert (await find(library, corpus_generation=1)).corpus_generation == 1
    assert await library.generations.current("default") == 2


async def test_without_a_corpus_generation_the_routes_stands(library: Library) -> None:
    library.generations.down = True
    assert (await find(library, corpus_generation=7)).corpus_generation == 7


@given(
    texts=st.lists(st.text("aä日\n", max_size=30), max_size=8),
    budget=st.integers(0, 4000),
)
async def test_documents_beyond_the_budget_go_by_reference(texts: list[str], budget: int) -> None:
    documents = [evidence(str(n), f"{n}{text}") for n, text in enumerate(texts)]
    library = await Library.open(_Fixed(*documents))
    job = await stage(library, byte_budget=budget)(routed(candidates=20))
    found = job.evidence.documents
    assert names(found) == names(documents)
    whole = [document for document in found if not document.by_reference]
    assert sum(map(_size, whole)) <= budget
    for before, after in zip(documents, found, strict=True):
        assert after.id == before.id
        if after.by_reference:
            assert (after.text, after.metadata) == ("", Metadata())
        else:
            assert (after.text, after.metadata) == (before.text, before.metadata)


def _size(document: Document) -> int:
    return len(document.text.encode()) + len(document.metadata.model_dump_json().encode())


async def test_what_fits_the_budget_goes_along() -> None:
    library = await Library.open(
        _Fixed(evidence("a", "aaaa"), evidence("b", "bbbb"), evidence("c", "c"))
    )
    budget = _size(evidence("a", "aaaa")) + _size(evidence("c", "c"))
    job = await stage(library, byte_budget=budget)(routed())
    assert [(d.text, d.by_reference) for d in job.evidence.documents] == [
        ("aaaa", False),
        ("", True),
        ("c", False),
    ]


async def test_the_job_goes_on_as_it_was(library: Library) -> None:
    given = Routed.model_validate({**dict(routed(tenant="acme")), "added_later": "kept"})
    found = await stage(library)(given)
    assert (found.query, found.routing, found.deadline) == (
        given.query,
        given.routing,
        given.deadline,
    )
    assert (found.model_extra or {})["added_later"] == "kept"


async def test_a_collection_that_fails_is_told(library: Library) -> None:
    with pytest.raises(PartialFailure, match="missing"):
        await find(library, collections=("docs", "missing"))
