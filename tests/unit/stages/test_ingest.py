"""How documents come into the index, change there, and leave it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.memory_vectors import MemoryVectorStore
from ragstream.domain.errors import DependencyUnavailable, InvalidEvent
from ragstream.domain.events import DocumentEvent, IndexChange
from ragstream.domain.evidence import IndexedChunk
from ragstream.domain.ports import DocumentRef
from ragstream.wire import decode, record_key
from tests.support.stages import Library, inbound, source

# Each becomes a chunk of its own.
ONE, TWO, THREE = (
    f"{name} paragraph: " + " ".join(f"{name}{n}" for n in range(12))
    for name in ("first", "second", "third")
)
PARAGRAPHS = st.sampled_from([ONE, TWO, THREE, "Short.", "Another short one."])
TEXTS = st.lists(PARAGRAPHS, min_size=1, max_size=5).map("\n\n".join)


@pytest.fixture
async def library() -> Library:
    return await Library.open()


async def texts(library: Library, document_id: str = "d", tenant: str = "default") -> list[str]:
    """What is stored of a document, in its order."""
    ids = await library.store.revisions("docs", tenant, document_id)
    found = await library.store.fetch([DocumentRef("docs", one) for one in ids], tenant)
    documents = sorted(found.values(), key=lambda d: d.metadata.chunk_index or 0)
    return [document.text for document in documents]


def removal(document_id: str = "d", **fields: object) -> DocumentEvent:
    return source(document_id, "", action="delete", **fields)


async def test_a_document_is_cut_encoded_and_stored(library: Library) -> None:
    await library.add(source("d", f"{ONE}\n\n{TWO}", title="Title", url="https://docs.example"))
    assert await texts(library) == [ONE, TWO]
    assert library.dense.encoded == [f"Title\n{ONE}", f"Title\n{TWO}"]
    ids = await library.store.revisions("docs", "default", "d")
    for document in (
        await library.store.fetch([DocumentRef("docs", one) for one in ids], "default")
    ).values():
        assert (document.metadata.title, document.metadata.url) == ("Title", "https://docs.example")
        assert document.document_id == "d"
        assert len(document.metadata.hash or "") == 64


async def test_each_change_is_told(library: Library) -> None:
    (record,) = await library.ingest(source("d", ONE, tenant="acme"))
    assert record.topic == "test.index-changes.v1"
    assert record.key == record_key("acme", "d")
    change, envelope = decode(inbound(record), IndexChange)
    assert (change.tenant, change.document_id, change.collection) == ("acme", "d", "docs")
    assert (change.added, change.removed, change.unchanged) == (1, 0, 0)
    assert change.corpus_generation == await library.generations.current("acme") > 0
    (other,) = await library.ingest(source("d", TWO, tenant="acme"))
    assert decode(inbound(other), IndexChange)[1].id != envelope.id


async def test_a_repeat_costs_nothing_and_changes_nothing(library: Library) -> None:
    document = source("d", f"{ONE}\n\n{TWO}")
    await library.add(document)
    encoded, generation = len(library.dense.encoded), await library.generations.current("default")
    assert await library.add(document) == []
    assert len(library.dense.encoded) == encoded
    assert await library.generations.current("default") == generation


async def test_only_what_changed_is_encoded(library: Library) -> None:
    await library.add(source("d", f"{ONE}\n\n{TWO}"))
    library.dense.encoded.clear()
    (change,) = await library.add(source("d", f"{ONE}\n\n{THREE}"))
    assert library.dense.encoded == [THREE]
    assert (change.added, change.removed, change.unchanged) == (1, 1, 1)
    assert await texts(library) == [ONE, THREE]


@pytest.mark.parametrize(
    "change", [{"access": ["ann"]}, {"title": "Title"}, {"docVersion": "3.7"}, {"colour": "red"}]
)
async def test_readers_and_metadata_are_changes_as_well(
    library: Library, change: dict[str, object]
) -> None:
    await library.add(source("d", ONE))
    assert len(await library.add(source("d", ONE, **change))) == 1
    assert await library.add(source("d", ONE, **change)) == []
    assert await texts(library) == [ONE]


async def test_the_order_of_readers_is_no_change(library: Library) -> None:
    await library.add(source("d", ONE, access=["ann", "bob"]))
    assert await library.add(source("d", ONE, access=["bob", "ann", "ann"])) == []


async def test_a_document_is_removed(library: Library) -> None:
    await library.add(source("d", f"{ONE}\n\n{TWO}"), source("other", THREE))
    (change,) = await library.add(removal())
    assert (change.added, change.removed, change.unchanged) == (0, 2, 0)
    assert await texts(library) == []
    assert await texts(library, "other") == [THREE]
    assert await library.add(removal(), removal("never there")) == []


async def test_tenants_keep_their_own_copies(library: Library) -> None:
    await library.add(source("d", ONE), source("d", TWO, tenant="acme"))
    assert await texts(library) == [ONE]
    await library.add(removal())
    assert await texts(library, tenant="acme") == [TWO]
    assert await library.generations.current("acme") < await library.generations.current("default")


async def test_the_kind_decides_the_collection(library: Library) -> None:
    (change,) = await library.add(source("d", ONE, kind="articles"))
    assert change.collection == "articles"
    assert await library.store.count("articles") == 1
    assert await library.store.count("docs") == 0


async def test_a_kind_that_is_not_known_is_refused(library: Library) -> None:
    with pytest.raises(InvalidEvent, match=r"no such kind: 'poems' .*articles, docs, news") as err:
        await library.add(source("d", ONE, kind="poems"))
    assert err.value.field == "kind"


@given(st.lists(TEXTS, min_size=1, max_size=4))
async def test_only_the_last_version_counts(versions: list[str]) -> None:
    changed, fresh = await Library.open(), await Library.open()
    for version in versions:
        await changed.add(source("d", version))
    await fresh.add(source("d", versions[-1]))
    assert await changed.store.revisions("docs", "default", "d") == await fresh.store.revisions(
        "docs", "default", "d"
    )
    assert await texts(changed) == await texts(fresh)


# --- when something is down ----------------------------------------------------------------


class Unsteady(MemoryVectorStore):
    """A store whose calls fail when told to. ``seen``: what was stored when it deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.down: set[str] = set()
        self.seen: list[int] = []

    async def upsert(self, collection: str, chunks: Sequence[IndexedChunk]) -> None:
        self._reach("upsert")
        await super().upsert(collection, chunks)

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        self.seen.append(await self.count(collection))
        self._reach("delete")
        await super().delete(collection, ids)

    def _reach(self, call: str) -> None:
        if call in self.down:
            raise DependencyUnavailable("vectors", "refused")


async def test_a_document_never_disappears_while_it_changes() -> None:
    store = Unsteady()
    library = await Library.open(store)
    await library.add(source("d", ONE))
    await library.add(source("d", TWO))
    assert store.seen == [2]


@pytest.mark.parametrize("call", ["upsert", "delete", "encode"])
async def test_work_that_breaks_off_is_completed_by_a_repeat(call: str) -> None:
    store = Unsteady()
    library = await Library.open(store)
    await library.add(source("d", f"{ONE}\n\n{TWO}"))
    before = await library.generations.current("default")
    store.down = {call}
    library.dense.down = call == "encode"
    with pytest.raises(DependencyUnavailable):
        await library.add(source("d", f"{ONE}\n\n{THREE}"))
    # Whatever was cached from the old text is no longer valid, and none of it is lost.
    assert await library.generations.current("default") > before
    assert set(await texts(library)) >= {ONE, TWO}
    store.down, library.dense.down = set(), False
    (change,) = await library.add(source("d", f"{ONE}\n\n{THREE}"))
    assert await texts(library) == [ONE, THREE]
    assert change.removed == 1


async def test_without_corpus_generations_nothing_is_written(library: Library) -> None:
    library.generations.down = True
    with pytest.raises(DependencyUnavailable):
        await library.add(source("d", ONE))
    assert await texts(library) == []


async def test_a_change_is_told_even_if_its_second_generation_can_not_be() -> None:
    class Falling(Unsteady):
        async def upsert(self, collection: str, chunks: Sequence[IndexedChunk]) -> None:
            await super().upsert(collection, chunks)
            library.generations.down = True

    library = await Library.open(Falling())
    (change,) = await library.add(source("d", ONE))
    library.generations.down = False
    assert change.corpus_generation == await library.generations.current("default") == 1
    assert await texts(library) == [ONE]
