"""Which answers are cached, and for whom."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ragstream.adapters.memory_state import MemoryAnswerCache
from ragstream.domain.errors import GenerationFailed
from ragstream.domain.evidence import Document
from ragstream.domain.ports import GeneratedPiece, Prompt
from ragstream.stages.answer import AnswerQuestion, Budget
from ragstream.stages.cachekey import own_key
from tests.support.stages import COUNTER, Library, SetClock, Told, evidence, reranked, source
from tests.unit.stages.test_answer import Deltas

KEY = "5" * 64
PUBLIC = evidence("public", "The default of acks is all.")
PRIVATE = evidence("private", "Ann sets acks to one.", private=True)


class Meanwhile(Told):
    """Something happens while it writes."""

    bench: Bench

    async def generate(self, prompt: Prompt, *, timeout: float) -> AsyncIterator[GeneratedPiece]:
        async for piece in super().generate(prompt, timeout=timeout):
            yield piece
        await self.happens()

    async def happens(self) -> None:
        await self.bench.library.generations.bump("default")


class Bench:
    def __init__(self, told: Told | None = None, **options: object) -> None:
        self.clock = SetClock()
        self.cache = MemoryAnswerCache(now=self.clock.monotonic)
        self.library = Library()
        generator = told or Told("It is all.")
        if isinstance(generator, Meanwhile):
            generator.bench = self
        self.stage = AnswerQuestion(
            generator,
            counter=COUNTER,
            budget=Budget(10_000),
            deltas=Deltas(),
            cache=self.cache,
            generations=self.library.generations,
            store=self.library.store,
            clock=self.clock,
            **options,  # type: ignore[arg-type]
        )

    async def answer(self, *documents: Document, **fields: object) -> None:
        await self.stage(reranked(*documents, **{"cache_key": KEY, **fields}))

    async def kept(self, *, tenant: str = "default", user: str = "ann") -> set[str]:
        keys = {"shared": KEY, "own": own_key(KEY, user)}
        return {name for name, key in keys.items() if await self.cache.get(tenant, key)}


async def test_an_answer_from_public_documents_is_for_all() -> None:
    bench = Bench()
    await bench.answer(PUBLIC, user_id="ann")
    assert await bench.kept() == {"shared"}
    assert await bench.kept(tenant="other") == set()
    found = await bench.cache.get("default", KEY)
    assert found is not None
    assert found.text == "It is all."


@pytest.mark.parametrize(
    ("documents", "private"),
    [([PUBLIC, PRIVATE], False), ([PRIVATE], False), ([PUBLIC], True), ([PRIVATE], True)],
)
async def test_an_answer_with_anything_private_is_the_users_own(
    documents: list[Document], private: bool
) -> None:
    bench = Bench()
    await bench.answer(*documents, user_id="ann", private=private)
    assert await bench.kept() == {"own"}
    assert await bench.kept(user="bob") == set()


async def test_a_private_answer_of_nobody_is_not_kept() -> None:
    bench = Bench()
    await bench.answer(PUBLIC, private=True)
    await bench.answer(PRIVATE)
    assert await bench.kept() == set()


async def test_a_private_document_stays_private_when_it_goes_by_reference() -> None:
    bench = Bench()
    library = await Library.open(bench.library.store)
    await library.add(source("private", PRIVATE.text, access=["ann"]))
    (chunk,) = await library.store.revisions("docs", "default", "private")
    reference = PRIVATE.model_copy(update={"id": chunk, "text": "", "by_reference": True})
    await bench.answer(reference, user_id="ann")
    assert await bench.kept() == {"own"}


async def test_it_is_kept_for_as_long_as_its_route_says() -> None:
    bench = Bench()
    await bench.answer(PUBLIC, cache_ttl=60.0)
    bench.clock.advance(59)
    assert await bench.kept() == {"shared"}
    bench.clock.advance(1)
    assert await bench.kept() == set()


@pytest.mark.parametrize(
    ("bumps", "route", "retrieve", "kept"),
    [
        (2, 2, 2, True),
        (2, 1, 2, False),  # it changed between route and retrieve
        (2, 1, 1, False),  # it changed after the search
        (2, 2, 1, False),
        (0, 0, 0, True),
    ],
)
async def test_a_corpus_that_changed_on_the_way_is_not_remembered(
    bumps: int, route: int, retrieve: int, kept: bool
) -> None:
    bench = Bench()
    for _ in range(bumps):
        await bench.library.generations.bump("default")
    await bench.answer(PUBLIC, corpus_generation=route, noted=retrieve)
    assert bool(await bench.kept()) is kept


async def test_nor_is_one_that_changed_while_the_answer_was_written() -> None:
    bench = Bench(Meanwhile("It is all."))
    await bench.answer(PUBLIC)
    assert await bench.kept() == set()


async def test_nor_one_that_can_not_be_told() -> None:
    bench = Bench()
    bench.library.generations.down = True
    await bench.answer(PUBLIC)
    assert await bench.kept() == set()


async def test_what_is_no_proper_answer_is_not_kept() -> None:
    for told, documents, options in (
        (Told("Made up."), (), {}),
        (Told(finish="no_answer"), (PUBLIC,), {}),
        (Told("Well known."), (), {"general_knowledge": True}),
    ):
        bench = Bench(told, **options)
        await bench.answer(*documents)
        assert await bench.kept() == set()
    bench = Bench()
    await bench.answer(PUBLIC, degraded=("history_stale",))
    await bench.answer(PUBLIC, cache_key=None)
    assert await bench.kept() == set()


async def test_a_text_that_breaks_off_is_not_kept() -> None:
    class Broken(Meanwhile):
        async def happens(self) -> None:
            raise GenerationFailed("broke off")

    bench = Bench(Broken("It is"))
    with pytest.raises(GenerationFailed):
        await bench.answer(PUBLIC)
    assert await bench.kept() == set()
