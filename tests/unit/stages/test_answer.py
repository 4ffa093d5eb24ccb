"""What is answered from the evidence that was kept, and how it is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ragstream.adapters.extractive import ExtractiveGenerator
from ragstream.domain.errors import ContextDoesNotFit, GenerationFailed
from ragstream.domain.events import Answer, AnswerDelta, AnswerStatus, Quality, Query
from ragstream.domain.evidence import Document, SearchMode
from ragstream.domain.ports import Generator
from ragstream.retrieval.analysis import default
from ragstream.stages.answer import DELTA_INTERVAL, AnswerQuestion, Budget
from tests.support.stages import (
    COUNTER,
    NOW,
    Library,
    SetClock,
    Told,
    evidence,
    reranked,
    source,
)

ACKS = evidence("acks", "The default of acks is all.", url="https://docs.example/acks")
LINGER = evidence("linger", "The default of linger.ms is zero.", url="https://docs.example/linger")
GROUPS = evidence("groups", "Members share partitions.", url="https://docs.example/groups")


class Deltas(list[AnswerDelta]):
    """Where deltas go."""

    def emit(self, query: Query, delta: AnswerDelta) -> None:
        self.append(delta)


class Bench:
    def __init__(self, generator: Generator, **options: object) -> None:
        self.deltas = Deltas()
        self.clock = SetClock()
        self.library = Library()
        given: dict[str, object] = {
            "counter": COUNTER,
            "budget": Budget(10_000),
            "deltas": self.deltas,
            "cache": None,
            "generations": self.library.generations,
            "store": self.library.store,
            "clock": self.clock,
            **options,
        }
        self.stage = AnswerQuestion(generator, **given)  # type: ignore[arg-type]

    async def answer(self, *documents: Document, **fields: object) -> Answer:
        return await self.stage(reranked(*documents, **fields))


def numbers(answer: Answer) -> list[int]:
    return [citation.number for citation in answer.citations]


async def test_the_answer_and_where_it_comes_from() -> None:
    bench = Bench(Told("It is all", " [1].\n"))
    answer = await bench.answer(
        ACKS, LINGER, user_id="ann", conversation_id="c", tenant="acme", generation=2, route="DOCS"
    )
    assert (answer.status, answer.text) == (AnswerStatus.ANSWERED, "It is all [1].")
    assert (answer.query_id, answer.tenant, answer.user_id) == ("q", "acme", "ann")
    assert (answer.conversation_id, answer.generation, answer.route) == ("c", 2, "DOCS")
    assert (answer.question, answer.model, answer.finish_reason) == (
        "What is acks?",
        "told",
        "stop",
    )
    assert (answer.accepted_at, answer.completed_at, answer.cache) == (NOW, NOW, None)
    assert answer.model == "told"
    assert answer.prompt_version
    (citation,) = answer.citations
    assert (citation.document_id, citation.url) == ("acks", "https://docs.example/acks")
    assert citation.snippet == "The default of acks is all."


async def test_without_a_model_sentences_are_picked_and_cited() -> None:
    answer = await Bench(ExtractiveGenerator(default)).answer(
        LINGER, ACKS, text="What is the default of acks?"
    )
    assert answer.text == "The default of acks is all. [2]"
    assert [citation.document_id for citation in answer.citations] == ["acks"]
    assert answer.model == "extractive"


async def test_evidence_question_and_conversation_are_in_the_prompt() -> None:
    told = Told("Yes.")
    await Bench(told).answer(ACKS, history=({"role": "user", "text": "Hello there."},))
    (prompt,) = told.prompts
    said = "\n".join(message.content for message in prompt.messages)
    for part in ("The default of acks is all.", "What is acks?", "Hello there."):
        assert part in said
    assert prompt.documents == (ACKS,)


# --- nothing to answer from ----------------------------------------------------------------


async def test_without_evidence_nothing_is_generated() -> None:
    told = Told("Made up.")
    answer = await Bench(told).answer()
    assert (answer.status, answer.citations) == (AnswerStatus.NO_CONTEXT, ())
    assert (answer.model, answer.quality) == (None, Quality.NONE)
    assert "Made up" not in answer.text
    assert told.prompts == []


async def test_evidence_that_does_not_answer_is_no_answer() -> None:
    answer = await Bench(Told(finish="no_answer")).answer(ACKS)
    assert (answer.status, answer.citations, answer.model) == (AnswerStatus.NO_CONTEXT, (), "told")


async def test_general_knowledge_is_labelled() -> None:
    answer = await Bench(Told("Well known."), general_knowledge=True).answer()
    assert (answer.status, answer.text) == (AnswerStatus.ANSWERED, "Well known.")
    assert (answer.degraded, answer.citations) == (("general-knowledge",), ())
    answer = await Bench(Told("It is all."), general_knowledge=True).answer(ACKS)
    assert answer.degraded == ()


async def test_a_route_that_searches_nothing_answers_without_evidence() -> None:
    answer = await Bench(Told("Hello!")).answer(collections=())
    assert (answer.status, answer.text, answer.degraded) == (AnswerStatus.ANSWERED, "Hello!", ())


async def test_a_generator_that_fails_is_told() -> None:
    class Broken(Told):
        async def generate(self, prompt, *, timeout):  # type: ignore[no-untyped-def, override]
            async for piece in super().generate(prompt, timeout=timeout):
                yield piece
                raise GenerationFailed("broke off")

    with pytest.raises(GenerationFailed):
        await Bench(Broken("It")).answer(ACKS)


# --- citations and quality -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "text", "cited"),
    [
        ("All[3][1].", "All[3][1].", [1, 3]),
        ("All[9].", "All.", [1, 2]),  # invented: as without any
        ("All[2][9].", "All[2].", [2]),
        ("All.", "All.", [1, 2]),
        ("All[CTX 2].", "All[2].", [2]),
    ],
)
async def test_markers_point_at_citations(said: str, text: str, cited: list[int]) -> None:
    answer = await Bench(Told(said), citation_limit=2).answer(ACKS, LINGER, GROUPS)
    assert (answer.text, numbers(answer)) == (text, cited)


async def test_the_limit_of_citations_spares_those_that_the_text_names() -> None:
    bench = Bench(Told("All[1][2][3]."), citation_limit=1)
    assert numbers(await bench.answer(ACKS, LINGER, GROUPS)) == [1, 2, 3]


async def test_quality_is_that_of_what_the_model_read() -> None:
    long = evidence("long", "word " * 40)
    bench = Bench(Told("Yes."))
    assert (await bench.answer(long)).quality is Quality.HIGH_QUALITY
    assert (await bench.answer(long, ACKS)).quality is Quality.MIXED_QUALITY
    answer = await bench.answer(long, mode=SearchMode.SPARSE_ONLY)
    assert answer.quality is Quality.KEYWORD_SEARCH
    few = Bench(Told("Yes."), budget=Budget(10_000, max_documents=1))
    assert (await few.answer(long, ACKS)).quality is Quality.HIGH_QUALITY


async def test_what_was_degraded_before_stays_told() -> None:
    answer = await Bench(Told("Yes.")).answer(ACKS, degraded=("history_stale",))
    assert answer.degraded == ("history_stale",)


# --- the budget ----------------------------------------------------------------------------


async def test_documents_are_limited_in_number_and_size() -> None:
    told = Told("Yes.")
    long = evidence("long", "one two three four five six seven eight nine ten")
    spared = evidence("spared", long.text, authoritative=True)
    budget = Budget(10_000, max_documents=2, document_tokens=3)
    await Bench(told, budget=budget).answer(long, spared, ACKS)
    kept = {document.document_id: document.text for document in told.prompts[0].documents}
    assert kept == {"long": "one two three", "spared": long.text}


async def test_what_does_not_fit_is_left_out_from_the_end() -> None:
    told = Told("Yes.")
    documents = [evidence(str(n), f"word{n} " * 100) for n in range(9)]
    await Bench(told, budget=Budget(1_500)).answer(*documents)
    (prompt,) = told.prompts
    kept = [document.document_id for document in prompt.documents]
    assert 0 < len(kept) < 9
    assert kept == [str(n) for n in range(len(kept))]
    assert prompt.tokens <= 1_500


@pytest.mark.parametrize("authoritative", [True, False])
async def test_a_budget_that_nothing_fits_fails_and_says_so(authoritative: bool) -> None:
    told = Told("Made up.")
    document = evidence("long", "word " * 2_000, authoritative=authoritative)
    with pytest.raises(ContextDoesNotFit):
        await Bench(told, budget=Budget(1_000)).answer(document)
    assert told.prompts == []


async def test_documents_by_reference_are_read_again() -> None:
    bench = Bench(Told("Yes[1]."))
    bench.library = await Library.open(bench.library.store)
    await bench.library.add(source("acks", "The default of acks is all."))
    (chunk,) = await bench.library.store.revisions("docs", "default", "acks")
    reference = ACKS.model_copy(update={"id": chunk, "text": "", "by_reference": True})
    answer = await bench.answer(reference)
    assert [citation.snippet for citation in answer.citations] == ["The default of acks is all."]
    await bench.library.store.delete("docs", [chunk])
    assert (await bench.answer(reference)).status is AnswerStatus.NO_CONTEXT


@pytest.mark.parametrize(("left", "given"), [(100, 90.0), (3, 3.0), (-5, 0.001)])
async def test_the_call_never_outlasts_the_deadline(left: float, given: float) -> None:
    told = Told("Yes.")
    await Bench(told).answer(ACKS, deadline=NOW + timedelta(seconds=left))
    assert told.timeout == given


# --- deltas --------------------------------------------------------------------------------


async def test_deltas_make_up_the_text() -> None:
    bench = Bench(Told("It ", "is ", "all", "."))
    answer = await bench.answer(ACKS, tenant="acme")
    assert "".join(delta.text for delta in bench.deltas) == answer.text == "It is all."
    assert [delta.seq for delta in bench.deltas] == list(range(len(bench.deltas)))
    assert {delta.attempt for delta in bench.deltas} == {answer.attempt}
    assert {(delta.query_id, delta.tenant) for delta in bench.deltas} == {("q", "acme")}


async def test_the_first_piece_goes_at_once_and_the_others_in_batches() -> None:
    bench = Bench(Told("It ", "is ", "all", "."))
    await bench.answer(ACKS)
    assert [delta.text for delta in bench.deltas] == ["It ", "is all."]

    class Slow(Told):
        async def generate(self, prompt, *, timeout):  # type: ignore[no-untyped-def, override]
            async for piece in super().generate(prompt, timeout=timeout):
                slow.clock.advance(2 * DELTA_INTERVAL)
                yield piece

    slow = Bench(Slow("It ", "is ", "all", "."))
    await slow.answer(ACKS)
    assert [delta.text for delta in slow.deltas] == ["It ", "is ", "all", "."]


async def test_who_wants_no_deltas_gets_none() -> None:
    bench = Bench(Told("It ", "is all."))
    answer = await bench.answer(ACKS, stream=False)
    assert (answer.text, answer.attempt, bench.deltas) == ("It is all.", None, [])


async def test_a_later_attempt_sorts_after_an_earlier_one() -> None:
    bench = Bench(Told("Yes."))
    attempts = []
    for _ in range(3):
        attempts.append((await bench.answer(ACKS)).attempt or "")
        bench.clock.advance(0.001)
    assert attempts == sorted(set(attempts))
