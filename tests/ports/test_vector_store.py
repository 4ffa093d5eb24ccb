"""One suite for every ``VectorStore``: in memory, Qdrant's engine behind its REST interface, and
the official client's own local mode, which can't do everything (see ``CLIENT_CANNOT``)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import AsyncQdrantClient

from ragstream.adapters.memory_vectors import MemoryVectorStore
from ragstream.adapters.qdrant import QdrantVectorStore
from ragstream.domain.errors import (
    ConfigurationError,
    DependencyUnavailable,
    InvalidEvent,
    PartialFailure,
    PermanentError,
)
from ragstream.domain.evidence import (
    FilterValue,
    Metadata,
    Range,
    Scope,
    SearchHits,
    SearchMode,
    SearchRequest,
    SparseVector,
    VersionConstraint,
)
from ragstream.domain.ports import CollectionSpec, DocumentRef, VectorStore
from tests.support.vectors import NO_TERMS, LocalVectors, chunk_id, indexed_chunk, sparse

#: What the client's local mode does not do, and the tests that therefore leave it out.
CLIENT_CANNOT = {
    "refuse a vector of the wrong length when it is written": "test_wrong_dimensions",
    "keep a deadline: it computes on the event loop": "test_deadline_in_the_past",
}

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
]

_numbers = count(1)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalVectors]:
    vectors = LocalVectors(tmp_path_factory.mktemp("vectors"))
    yield vectors
    assert vectors.stop() == 0


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["memory", "endpoint", "client"]
)
async def each_store(request: pytest.FixtureRequest) -> AsyncIterator[VectorStore]:
    if request.param == "memory":
        yield MemoryVectorStore()
        return
    if request.param == "endpoint":
        opened = QdrantVectorStore.connect(request.getfixturevalue("endpoint").url)
    else:
        opened = QdrantVectorStore(AsyncQdrantClient(":memory:"))
    yield opened
    await opened.close()


@pytest.fixture
def store(each_store: VectorStore, request: pytest.FixtureRequest) -> VectorStore:
    local = request.node.callspec.params["each_store"] == "client"
    if local and request.node.originalname in CLIENT_CANNOT.values():
        pytest.skip("the client's local mode can't: see CLIENT_CANNOT")
    return each_store


def new_spec(**changes: Any) -> CollectionSpec:
    return CollectionSpec(**{"name": f"chunks {next(_numbers)}", "dimensions": 3, **changes})


@pytest_asyncio.fixture(loop_scope="module")
async def collection(store: VectorStore) -> str:
    spec = new_spec()
    await ensure(store, spec)
    return spec.name


@pytest_asyncio.fixture(loop_scope="module")
async def indexed(store: VectorStore) -> str:
    """A collection with its payload indexes."""
    spec = new_spec()
    await ensure(store, spec, indexes=True)
    return spec.name


async def ensure(
    store: VectorStore, *specs: CollectionSpec, create: bool = True, indexes: bool = False
) -> None:
    await store.ensure(specs, create=create, payload_indexes=indexes)


async def search(
    store: VectorStore,
    *collections: str,
    dense: tuple[float, ...] | None = (1.0, 0.0, 0.0),
    terms: SparseVector = NO_TERMS,
    user: str | None = None,
    tenant: str = "acme",
    limit: int = 10,
    prefetch: int = 20,
    timeout: float = 10.0,
    **rest: Any,
) -> SearchHits:
    return await store.search(
        SearchRequest(
            collections=collections,
            scope=Scope(tenant, user),
            dense=dense,
            sparse=terms,
            limit=limit,
            prefetch=prefetch,
            timeout=timeout,
            **rest,
        )
    )


async def found(store: VectorStore, collection: str, **rest: Any) -> list[int]:
    """Numbers of the chunks that were found, best first."""
    hits = await search(store, collection, **rest)
    return [int(hit.text.removeprefix("text ")) for hit in hits.by_collection[collection]]


def toward(angle: float) -> tuple[float, float, float]:
    """A vector at an angle (degrees) from the query's; not of length 1 on purpose."""
    return 3 * math.cos(math.radians(angle)), 3 * math.sin(math.radians(angle)), 0.0


# --- ranking -------------------------------------------------------------------------------

#: Dense order 1 2 3 4; for term 1 alone the sparse order is 4 3 1, and 2 lacks the term.
RANKED = [
    indexed_chunk(1, dense=toward(0), sparse=sparse(t1=1.0, t9=1.0)),
    indexed_chunk(2, dense=toward(10), sparse=sparse(t2=1.0)),
    indexed_chunk(3, dense=toward(20), sparse=sparse(t1=2.0)),
    indexed_chunk(4, dense=toward(30), sparse=sparse(t1=3.0)),
]


@pytest.mark.parametrize("k", [1, 60])
async def test_hybrid_scores_are_reciprocal_ranks(
    store: VectorStore, collection: str, k: int
) -> None:
    await store.upsert(collection, RANKED)
    hits = await search(store, collection, terms=sparse(t1=1.0), rrf_k=k)
    expected = {
        1: 1 / (k + 0) + 1 / (k + 2),
        2: 1 / (k + 1),
        3: 1 / (k + 2) + 1 / (k + 1),
        4: 1 / (k + 3) + 1 / (k + 0),
    }
    documents = hits.by_collection[collection]
    assert hits.mode is SearchMode.HYBRID
    assert {document.id: document.score for document in documents} == {
        chunk_id(number): pytest.approx(score, rel=1e-6) for number, score in expected.items()
    }
    scores = [document.score for document in documents]
    assert scores == sorted(scores, reverse=True)


async def test_k_changes_the_order(store: VectorStore, collection: str) -> None:
    """A small k favours one first place, a large k two places further down."""
    await store.upsert(
        collection,
        [
            indexed_chunk(1, dense=toward(0)),
            indexed_chunk(2, dense=toward(10)),
            indexed_chunk(3, dense=toward(20), sparse=sparse(t1=1.0)),
            indexed_chunk(4, dense=toward(30), sparse=sparse(t1=2.0)),
            indexed_chunk(5, dense=toward(40), sparse=sparse(t1=3.0)),
        ],
    )
    terms = sparse(t1=1.0)
    few = await found(store, collection, terms=terms, prefetch=3, rrf_k=1)
    assert few.index(1) < few.index(3)
    many = await found(store, collection, terms=terms, prefetch=3, rrf_k=60)
    assert many[0] == 3


async def test_prefetch_cuts_each_side_before_fusion(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, RANKED)
    assert set(await found(store, collection, terms=sparse(t1=1.0), prefetch=1)) == {1, 4}
    assert await found(store, collection, limit=2) == [1, 2]


async def test_rare_terms_weigh_more(store: VectorStore, collection: str) -> None:
    """Term 9 stands in one chunk of four, term 1 in three: ln(1 + 3.5 / 1.5) against
    ln(1 + 1.5 / 3.5) times 3."""
    await store.upsert(collection, RANKED)
    order = await found(store, collection, dense=None, terms=sparse(t1=1.0, t9=1.0))
    assert order == [1, 4, 3]


async def test_without_idf_weights_count_as_they_are(store: VectorStore) -> None:
    spec = new_spec(idf=False)
    await ensure(store, spec)
    await store.upsert(spec.name, RANKED)
    order = await found(store, spec.name, dense=None, terms=sparse(t1=1.0, t9=1.0))
    assert order[0] == 4
    assert set(order[1:]) == {1, 3}


async def test_one_side_alone(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, RANKED)
    dense_only = await search(store, collection)
    assert dense_only.mode is SearchMode.DENSE_ONLY
    assert [hit.id for hit in dense_only.by_collection[collection]] == [
        chunk_id(number) for number in (1, 2, 3, 4)
    ]
    sparse_only = await search(store, collection, dense=None, terms=sparse(t1=1.0))
    assert sparse_only.mode is SearchMode.SPARSE_ONLY
    assert [hit.id for hit in sparse_only.by_collection[collection]] == [
        chunk_id(number) for number in (4, 3, 1)
    ]
    assert sparse_only.by_collection[collection][0].score == pytest.approx(1 / 60)


async def test_nothing_to_search_with_finds_nothing(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, RANKED)
    assert await found(store, collection, dense=None) == []


async def test_other_vector_names(store: VectorStore) -> None:
    spec = new_spec(dense_name="meaning", sparse_name="words")
    await ensure(store, spec)
    await store.upsert(spec.name, RANKED)
    assert await found(store, spec.name, terms=sparse(t1=1.0)) == [1, 4, 3, 2]


@given(
    angles=st.lists(st.integers(0, 170), min_size=1, max_size=12),
    documents=st.lists(
        st.dictionaries(st.integers(1, 5), st.integers(1, 9).map(float), max_size=4),
        min_size=12,
        max_size=12,
    ),
    query=st.dictionaries(st.integers(1, 6), st.integers(1, 3).map(float), min_size=1),
)
@settings(max_examples=12)
async def test_any_order_is_the_formulas(
    each_store: VectorStore,
    angles: list[int],
    documents: list[dict[int, float]],
    query: dict[int, float],
) -> None:
    spec = new_spec()
    await ensure(each_store, spec)
    weights = [dict(sorted(terms.items())) for terms in documents[: len(angles)]]
    await each_store.upsert(
        spec.name,
        [
            indexed_chunk(
                number,
                dense=toward(angle),
                sparse=SparseVector(tuple(terms), tuple(terms.values())),
            )
            for number, (angle, terms) in enumerate(zip(angles, weights, strict=True))
        ],
    )
    dense_order = await found(each_store, spec.name, limit=20)
    cosines = [math.cos(math.radians(angle)) for angle in angles]
    assert_ordered(dense_order, dict(enumerate(cosines)))

    having = Counter(term for terms in weights for term in terms)
    total = sum(bool(terms) for terms in weights)
    expected = {
        number: sum(
            query[term] * terms[term] * math.log(1 + (total - n + 0.5) / (n + 0.5))
            for term, n in having.items()
            if term in query and term in terms
        )
        for number, terms in enumerate(weights)
        if query.keys() & terms.keys()
    }
    asked = SparseVector(tuple(sorted(query)), tuple(query[term] for term in sorted(query)))
    assert_ordered(await found(each_store, spec.name, dense=None, terms=asked, limit=20), expected)


def assert_ordered(order: list[int], scores: dict[int, float]) -> None:
    """All of them, best first; near ties (single precision) may stand either way."""
    assert sorted(order) == sorted(scores)
    for better, worse in pairwise(order):
        assert scores[better] >= scores[worse] - 1e-5 * abs(scores[worse])


# --- what a hit carries --------------------------------------------------------------------


async def test_a_document_comes_back_as_it_went_in(store: VectorStore, collection: str) -> None:
    chunk = indexed_chunk(
        1,
        access=("ann", "bob"),
        document_id="guide",
        title="Streams",
        docVersion="2.8",
        pageStart=3,
        headings=("Guide", "Streams"),
        publishedAt=datetime(2026, 1, 10, 12, tzinfo=UTC),
        authoritative=True,
        team={"name": "core", "size": 4},
    )
    await store.upsert(collection, [chunk])
    hits = await search(store, collection, user="ann")
    (document,) = hits.by_collection[collection]
    assert document.id == chunk.chunk.id
    assert document.document_id == "guide"
    assert document.collection == collection
    assert document.text == "text 1"
    assert document.private
    assert not document.by_reference
    assert document.metadata == chunk.chunk.metadata


async def test_metadata_does_not_decide_who_sees_it(store: VectorStore, collection: str) -> None:
    chunk = indexed_chunk(1, access=("ann",))
    metadata = Metadata.model_validate({"tenant": "rival", "access": [], "text": "forged"})
    await store.upsert(collection, [replace(chunk, chunk=replace(chunk.chunk, metadata=metadata))])
    assert await found(store, collection) == []
    assert await found(store, collection, tenant="rival") == []
    assert await found(store, collection, user="ann") == [1]


# --- who sees what -------------------------------------------------------------------------


async def test_another_tenant_never_appears(store: VectorStore, collection: str) -> None:
    await store.upsert(
        collection,
        [
            indexed_chunk(1, sparse=sparse(t1=1.0)),
            indexed_chunk(2, sparse=sparse(t1=1.0), tenant="rival"),
            indexed_chunk(3, sparse=sparse(t1=1.0), tenant="rival", access=("ann",)),
        ],
    )
    terms = sparse(t1=1.0)
    assert await found(store, collection, terms=terms, user="ann") == [1]
    assert await found(store, collection, terms=terms, tenant="rival") == [2]
    assert await found(store, collection, terms=terms, filters={"documentId": "document-2"}) == []
    assert await found(store, collection, terms=terms, tenant="nobody") == []


@pytest.mark.parametrize("name", ["tenant", "access"])
async def test_scope_is_not_a_filter(store: VectorStore, collection: str, name: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        await search(store, collection, filters={name: "rival"})
    assert caught.value.field == f"filters.{name}"


@pytest.mark.parametrize("name", ['"tenant"', "a b", "a[0]", "tenant.", ""])
async def test_filter_names_are_fields(store: VectorStore, collection: str, name: str) -> None:
    with pytest.raises(InvalidEvent):
        await search(store, collection, filters={name: "rival"})


async def test_private_documents(store: VectorStore, indexed: str) -> None:
    await store.upsert(
        indexed,
        [
            indexed_chunk(1),
            indexed_chunk(2, dense=toward(10), access=("ann",)),
            indexed_chunk(3, dense=toward(20), access=("ann", "bob")),
        ],
    )
    assert await found(store, indexed) == [1]
    assert await found(store, indexed, user="eve") == [1]
    assert await found(store, indexed, user="bob") == [1, 3]
    assert await found(store, indexed, user="ann") == [1, 2, 3]
    assert await found(store, indexed, user="ann", private_only=True) == [2, 3]
    assert await found(store, indexed, user="eve", private_only=True) == []
    assert await found(store, indexed, private_only=True) == []


# --- filters -------------------------------------------------------------------------------

FILTERED = [
    indexed_chunk(
        1,
        dense=toward(0),
        sparse=sparse(t1=1.0),
        docVersion="21",
        docType="guide",
        publishedAt=datetime(2026, 1, 1, tzinfo=UTC),
        pageStart=1,
        draft=True,
        rating=4.5,
        tags=["a", "b"],
        team={"name": "core"},
    ),
    indexed_chunk(
        2,
        dense=toward(10),
        sparse=sparse(t1=2.0),
        docVersion="2.8",
        docType="api",
        publishedAt=datetime(2026, 1, 15, tzinfo=UTC),
        pageStart=5,
        draft=False,
        rating=3.0,
        tags=["b"],
        team={"name": "docs"},
    ),
    indexed_chunk(3, dense=toward(20), sparse=sparse(t1=3.0), pageStart=9, rating=2),
]


FILTERS: list[tuple[dict[str, FilterValue], list[int]]] = [
    ({"docType": "guide"}, [1]),
    ({"doc_type": "guide"}, [1]),
    ({"docType": ["guide", "api"]}, [1, 2]),
    ({"docType": "none such"}, []),
    ({"docType": "guide", "pageStart": 1}, [1]),
    ({"docType": "guide", "pageStart": 5}, []),
    ({"pageStart": 5}, [2]),
    ({"page_start": [1, 9]}, [1, 3]),
    ({"draft": True}, [1]),
    ({"draft": False}, [2]),
    ({"draft": [True, False]}, [1, 2]),
    ({"rating": 4.5}, [1]),
    ({"rating": 2.0}, [3]),
    ({"rating": [4.5, 3.0]}, [1, 2]),
    ({"tags": "b"}, [1, 2]),
    ({"tags": ["a", "z"]}, [1]),
    ({"team.name": "docs"}, [2]),
    ({"docVersion": 21}, [1]),
    ({"doc_version": [21, 2.8]}, [1, 2]),
    ({"documentId": "document-3"}, [3]),
    ({"document_id": "document-3"}, [3]),
    ({"pageStart": Range(gte=5)}, [2, 3]),
    ({"pageStart": Range(gt=1, lt=9)}, [2]),
    ({"pageStart": Range(lte=1)}, [1]),
    ({"rating": Range(gte=2.5, lt=4.5)}, [2]),
    ({"publishedAt": Range(gte=datetime(2026, 1, 2, tzinfo=UTC))}, [2]),
    ({"published_at": Range(lt=datetime(2026, 1, 15, tzinfo=UTC))}, [1]),
    ({"pageStart": ["9", 1, 5.0]}, [1, 2]),
]


async def test_filters_hold_on_both_sides(store: VectorStore, indexed: str) -> None:
    await store.upsert(indexed, FILTERED)
    terms = sparse(t1=1.0)
    for filters, expected in FILTERS:
        assert await found(store, indexed, filters=filters) == expected, filters
        by_terms = await found(store, indexed, dense=None, terms=terms, filters=filters)
        assert by_terms == expected[::-1], filters
        assert sorted(await found(store, indexed, terms=terms, filters=filters)) == expected


async def test_filters_apply_before_the_cut(store: VectorStore, collection: str) -> None:
    """A match must be found behind any number of better ones that the filter removes."""
    crowd = [indexed_chunk(number, docType="noise") for number in range(10, 40)]
    await store.upsert(collection, [*crowd, indexed_chunk(1, dense=toward(80), docType="guide")])
    filters = {"docType": "guide"}
    assert await found(store, collection, filters=filters, prefetch=1, limit=1) == [1]


VERSIONED = [
    indexed_chunk(1, dense=toward(0), product="java", docVersion="21"),
    indexed_chunk(2, dense=toward(10), product="java", docVersion="17"),
    indexed_chunk(3, dense=toward(20), product="kafka", docVersion="21"),
    indexed_chunk(4, dense=toward(30), product="java"),
    indexed_chunk(5, dense=toward(40)),
]


VERSIONS = [
    (VersionConstraint("java", ("21",)), [1, 4, 5]),
    (VersionConstraint("java", ("21",), keep_unversioned=False), [1]),
    (VersionConstraint("java", ("21", "17"), keep_unversioned=False), [1, 2]),
    (VersionConstraint("kafka", ("21",)), [3, 4, 5]),
    (VersionConstraint("java", ("99",)), [4, 5]),
    (VersionConstraint("java", ("99",), keep_unversioned=False), []),
]


async def test_version_constraint(store: VectorStore, indexed: str) -> None:
    await store.upsert(indexed, VERSIONED)
    for versions, expected in VERSIONS:
        assert await found(store, indexed, versions=versions) == expected, versions


# --- several collections -------------------------------------------------------------------


async def test_collections_are_answered_one_by_one_in_order(store: VectorStore) -> None:
    first, second, empty = new_spec(), new_spec(), new_spec()
    await ensure(store, first, second, empty)
    await store.upsert(first.name, [indexed_chunk(1)])
    await store.upsert(second.name, [indexed_chunk(2), indexed_chunk(1)])
    hits = await search(store, second.name, empty.name, first.name)
    assert list(hits.by_collection) == [second.name, empty.name, first.name]
    assert [len(documents) for documents in hits.by_collection.values()] == [2, 0, 1]
    assert hits.by_collection[first.name][0].collection == first.name


async def test_a_missing_collection_fails_the_search(store: VectorStore, collection: str) -> None:
    with pytest.raises(PartialFailure) as caught:
        await search(store, collection, "nowhere", "gone")
    assert set(caught.value.causes) == {"nowhere", "gone"}
    assert all(isinstance(cause, PermanentError) for cause in caught.value.causes.values())
    assert not caught.value.retryable
    assert "nowhere" in str(caught.value)


async def test_deadline_in_the_past(store: VectorStore, collection: str) -> None:
    with pytest.raises(PartialFailure) as caught:
        await search(store, collection, timeout=0.0)
    assert isinstance(caught.value.causes[collection], DependencyUnavailable)
    assert caught.value.retryable


async def test_query_of_the_wrong_length(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, RANKED)
    with pytest.raises(PartialFailure) as caught:
        await search(store, collection, dense=(1.0, 0.0))
    assert isinstance(caught.value.causes[collection], PermanentError)


# --- ensure --------------------------------------------------------------------------------


async def test_ensure_refuses_what_is_missing(store: VectorStore) -> None:
    first, second = new_spec(), new_spec()
    with pytest.raises(ConfigurationError) as caught:
        await ensure(store, first, second, create=False)
    assert first.name in str(caught.value)
    assert second.name in str(caught.value)


async def test_ensure_again_changes_nothing(store: VectorStore) -> None:
    spec = new_spec()
    await ensure(store, spec)
    await store.upsert(spec.name, RANKED)
    await ensure(store, spec, indexes=True)
    await ensure(store, spec, create=False, indexes=True)
    assert await store.count(spec.name) == 4


async def test_ensure_lists_every_problem(store: VectorStore) -> None:
    first, second = new_spec(), new_spec()
    await ensure(store, first, second)
    missing = new_spec()
    with pytest.raises(ConfigurationError) as caught:
        await ensure(
            store,
            CollectionSpec(first.name, dimensions=5, idf=False),
            CollectionSpec(second.name, dimensions=3, dense_name="d", sparse_name="s"),
            missing,
            create=False,
        )
    problems = str(caught.value).splitlines()[1:]
    assert problems == [
        f"- {first.name}: 'dense' has 3 dimensions, not 5",
        f"- {first.name}: 'bm25' must not have the idf modifier",
        f"- {second.name}: no dense vector 'd' (has 'dense')",
        f"- {second.name}: no sparse vector 's' (has 'bm25')",
        f"- {missing.name}: does not exist",
    ]


# --- writing and reading -------------------------------------------------------------------


async def test_upsert_replaces(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, RANKED)
    await store.upsert(collection, RANKED)
    assert await store.count(collection) == 4
    await store.upsert(collection, [indexed_chunk(1, dense=toward(90), docType="new")])
    assert await found(store, collection) == [2, 3, 4, 1]
    assert await found(store, collection, filters={"docType": "new"}) == [1]
    assert await found(store, collection, dense=None, terms=sparse(t1=1.0)) == [4, 3]


async def test_upsert_of_many(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [indexed_chunk(number) for number in range(1, 151)])
    assert await store.count(collection) == 150
    await store.upsert(collection, [])


async def test_wrong_dimensions(store: VectorStore, collection: str) -> None:
    with pytest.raises(PermanentError):
        await store.upsert(collection, [indexed_chunk(1), indexed_chunk(2, dense=(1.0, 0.0))])
    assert await store.count(collection) == 0


async def test_writing_to_a_missing_collection(store: VectorStore) -> None:
    with pytest.raises(PermanentError):
        await store.upsert("nowhere", [indexed_chunk(1)])


async def test_revisions(store: VectorStore, collection: str) -> None:
    chunks = [
        indexed_chunk(1, document_id="guide"),
        indexed_chunk(2, document_id="guide", access=("bob", "ann")),
        indexed_chunk(3, document_id="other"),
        indexed_chunk(4, document_id="guide", tenant="rival"),
    ]
    await store.upsert(collection, chunks)
    assert await store.revisions(collection, "acme", "guide") == {
        chunk_id(1): chunks[0].revision,
        chunk_id(2): chunks[1].revision,
    }
    readers_named_otherwise = replace(chunks[1], access=("ann", "bob", "ann"))
    assert readers_named_otherwise.revision == chunks[1].revision
    assert replace(chunks[1], access=()).revision != chunks[1].revision
    assert await store.revisions(collection, "acme", "none such") == {}


async def test_revisions_of_a_long_document(store: VectorStore, collection: str) -> None:
    chunks = [indexed_chunk(number, document_id="book") for number in range(1, 301)]
    await store.upsert(collection, chunks)
    found_revisions = await store.revisions(collection, "acme", "book")
    assert found_revisions == {chunk.chunk.id: chunk.revision for chunk in chunks}


async def test_delete(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, RANKED)
    await store.delete(collection, [chunk_id(1), chunk_id(3), chunk_id(99)])
    assert await found(store, collection) == [2, 4]
    await store.delete(collection, [])
    assert await store.count(collection) == 2


async def test_releases(store: VectorStore, indexed: str) -> None:
    other = new_spec()
    await ensure(store, other, indexes=True)
    await store.upsert(indexed, VERSIONED)
    await store.upsert(
        other.name,
        [
            indexed_chunk(6, product="java", docVersion="25"),
            indexed_chunk(7, product="java", docVersion="8", tenant="rival"),
        ],
    )
    both = [indexed, other.name]
    assert await store.releases(both, "acme", "java") == {"21", "17", "25"}
    assert await store.releases([indexed], "acme", "kafka") == {"21"}
    assert await store.releases(both, "rival", "java") == {"8"}
    assert await store.releases(both, "acme", "go") == frozenset()
    with pytest.raises(PartialFailure):
        await store.releases([indexed, "nowhere"], "acme", "java")


async def test_fetch(store: VectorStore, collection: str) -> None:
    await store.upsert(
        collection, [indexed_chunk(1, title="One"), indexed_chunk(2), indexed_chunk(3, tenant="x")]
    )
    here, foreign, gone = (DocumentRef(collection, chunk_id(number)) for number in (1, 3, 9))
    documents = await store.fetch([here, foreign, gone], "acme")
    assert set(documents) == {here}
    assert documents[here].text == "text 1"
    assert documents[here].metadata.title == "One"
    assert await store.fetch([], "acme") == {}


async def test_count(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [indexed_chunk(1), indexed_chunk(2, tenant="rival")])
    assert await store.count(collection) == 2
    assert await store.count(collection, "acme") == 1
    assert await store.count(collection, "nobody") == 0
    with pytest.raises(PermanentError):
        await store.count("nowhere")


async def test_ping(store: VectorStore) -> None:
    await store.ping()
