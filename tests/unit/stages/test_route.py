"""Where a question goes, and when it need not go anywhere because its answer is cached."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from ragstream.adapters.memory_state import MemoryAnswerCache, MemoryHistory
from ragstream.adapters.rules import RuleClassifier
from ragstream.domain.errors import PermanentError, TransientError
from ragstream.domain.events import Answer, CacheHit, Job, Routed, Usage
from ragstream.domain.ports import RouteDescription
from ragstream.retrieval.versions import KAFKA
from ragstream.stages.cachekey import own_key
from ragstream.stages.route import Route, RoutePlan
from tests.support.stages import NOW, Generations, SetClock, job

DOCS = RoutePlan("DOCS", "documentation", ("docs",), candidates=8, keep=6, prefetch=14)
NEWS = RoutePlan("NEWS", "news", ("news",), decay=True, filters={"docType": "news"})
ACCOUNT = RoutePlan("ACCOUNT", "one's own account", ("docs",), private=True, cache_ttl=60.0)
RULES = {"NEWS": [r"\bnews\b"], "ACCOUNT": [r"\bmy\b"]}


class Intent:
    """An intent model that says what it is told to say."""

    def __init__(self, says: str | Exception | None) -> None:
        self.says = says
        self.asked: list[str] = []

    async def classify(
        self, text: str, routes: Sequence[RouteDescription], *, timeout: float
    ) -> str | None:
        self.asked.append(text)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Bench:
    def __init__(self, *plans: RoutePlan, **options: object) -> None:
        self.cache = MemoryAnswerCache()
        self.generations = Generations()
        self.history = MemoryHistory()
        self.clock = SetClock()
        given: dict[str, object] = {
            "default": "DOCS",
            "products": [KAFKA],
            "rules": RuleClassifier(RULES),
            "llm": None,
            "cache": self.cache,
            "generations": self.generations,
            "history": self.history,
            "clock": self.clock,
            "model": "extractive",
            "prompt_version": "1",
            **options,
        }
        self.stage = Route(plans or (DOCS, NEWS, ACCOUNT), **given)  # type: ignore[arg-type]

    async def route(self, text: str = "What is acks?", **fields: object) -> Routed:
        result = await self.stage(job(text, **fields))
        assert isinstance(result, Routed)
        return result

    async def key(self, text: str = "What is acks?", **fields: object) -> str:
        key = (await self.route(text, **fields)).routing.cache_key
        assert key is not None
        return key

    async def remember(self, key: str, text: str, *, tenant: str = "default") -> None:
        await self.cache.put(tenant, key, answer(text=text, tenant=tenant), ttl=60)

    async def hit(self, text: str = "What is acks?", **fields: object) -> str | None:
        result = await self.stage(job(text, **fields))
        return result.text if isinstance(result, Answer) else None


def answer(**fields: object) -> Answer:
    return Answer.model_validate(
        {
            "query_id": "earlier",
            "question": "what is acks?",
            "status": "answered",
            "accepted_at": NOW - timedelta(hours=1),
            "completed_at": NOW - timedelta(hours=1),
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("text", "asked", "route", "decided_by"),
    [
        ("What is acks?", None, "DOCS", "default"),
        ("Any NEWS of Kafka?", None, "NEWS", "rules"),
        ("What is on my bill?", None, "ACCOUNT", "rules"),
        ("Any news of Kafka?", "DOCS", "DOCS", "query"),
    ],
)
async def test_query_then_rules_then_default_decide(
    text: str, asked: str | None, route: str, decided_by: str
) -> None:
    routing = (await Bench().route(text, **({"route": asked} if asked else {}))).routing
    assert (routing.route, routing.decided_by) == (route, decided_by)


@pytest.mark.parametrize(
    ("says", "route", "decided_by"),
    [
        ("ACCOUNT", "ACCOUNT", "llm"),
        (None, "NEWS", "rules"),
        (TransientError("busy"), "NEWS", "rules"),
        (PermanentError("refused"), "NEWS", "rules"),
    ],
)
async def test_a_model_decides_and_rules_stand_in_for_it(
    says: str | Exception | None, route: str, decided_by: str
) -> None:
    routing = (await Bench(llm=Intent(says)).route("Any news?")).routing
    assert (routing.route, routing.decided_by) == (route, decided_by)


async def test_a_model_is_not_asked_what_is_known() -> None:
    intent = Intent("DOCS")
    assert (await Bench(DOCS, llm=intent).route()).routing.decided_by == "default"
    assert (await Bench(llm=intent).route(route="NEWS")).routing.decided_by == "query"
    assert intent.asked == []


async def test_a_route_brings_its_collections_limits_and_rules() -> None:
    docs = (await Bench().route()).routing
    assert (docs.collections, docs.private, docs.decay) == (("docs",), False, False)
    assert (docs.candidates, docs.keep, docs.prefetch) == (8, 6, 14)
    assert (await Bench().route("any news?")).routing.decay
    account = (await Bench().route("my bill?")).routing
    assert (account.private, account.cache_ttl) == (True, 60.0)


async def test_top_k_is_what_is_kept_and_enough_is_searched_for_it() -> None:
    few = (await Bench().route(top_k=2)).routing
    assert (few.candidates, few.keep, few.prefetch) == (8, 2, 14)
    many = (await Bench().route(top_k=50)).routing
    assert (many.candidates, many.keep, many.prefetch) == (50, 50, 50)


async def test_a_query_may_narrow_a_routes_filters_and_not_widen_them() -> None:
    filters = {"docType": "blog", "language": "en"}
    routing = (await Bench().route("any news?", filters=filters)).routing
    assert routing.filters == {"docType": "news", "language": "en"}


async def test_releases_are_read_from_the_question() -> None:
    routing = (await Bench().route("What is acks in Kafka 2.8 and 3.7?")).routing
    assert routing.versions is not None
    assert (routing.versions.product, routing.versions.releases) == ("kafka", ("2.8", "3.7"))
    assert routing.search_text.endswith(": What is acks in Kafka 2.8 and 3.7?")
    assert routing.keyword_text is not None
    assert "2.8" not in routing.keyword_text
    plain = (await Bench().route("What is acks in Kafka?")).routing
    assert (plain.versions, plain.keyword_text) == (None, None)
    assert plain.search_text == "What is acks in Kafka?"


async def test_the_job_goes_on_as_it_was() -> None:
    given = job("What is acks?", tenant="acme", degraded=("x",), generation=2)
    given = Job.model_validate({**dict(given), "added_later": "kept"})
    routed = await Bench().stage(given)
    assert isinstance(routed, Routed)
    assert (routed.query, routed.generation, routed.degraded) == (given.query, 2, ("x",))
    assert (routed.model_extra or {})["added_later"] == "kept"


# --- the cache -----------------------------------------------------------------------------


async def test_a_cached_answer_becomes_this_querys() -> None:
    bench = Bench()
    stored = answer(
        text="1",
        route="DOCS",
        model="m",
        attempt="a",
        usage=Usage(input_tokens=9),
        user_id="bob",
        conversation_id="bobs",
        timings=({"stage": "answer", "queued_ms": 1, "work_ms": 1},),
    )
    await bench.cache.put("default", await bench.key(), stored, ttl=60)
    bench.clock.advance(2)
    found = await bench.stage(job("WHAT is acks?", user_id="ann", generation=1))
    assert isinstance(found, Answer)
    assert (found.text, found.route, found.model, found.cache) == ("1", "DOCS", "m", CacheHit.EXACT)
    assert (found.query_id, found.user_id, found.conversation_id) == ("q", "ann", None)
    assert (found.question, found.generation) == ("WHAT is acks?", 1)
    assert (found.attempt, found.usage, found.timings) == (None, None, ())
    assert (found.accepted_at, found.completed_at) == (NOW, NOW + timedelta(seconds=2))


async def test_a_users_own_answer_comes_before_the_shared_one() -> None:
    bench = Bench()
    key = await bench.key()
    await bench.remember(key, "for all")
    await bench.remember(own_key(key, "ann"), "for ann")
    assert await bench.hit(user_id="ann") == "for ann"
    assert await bench.hit(user_id="bob") == "for all"
    assert await bench.hit() == "for all"


async def test_nobody_is_served_from_another_users_entry() -> None:
    bench = Bench()
    key = await bench.key("What is on my bill?")
    await bench.remember(own_key(key, "ann"), "for ann")
    assert await bench.hit("What is on my bill?", user_id="bob") is None
    assert await bench.hit("What is on my bill?") is None
    assert await bench.hit("What is on my bill?", user_id="ann") == "for ann"


async def test_nobody_is_served_from_another_tenants_entry() -> None:
    bench = Bench()
    await bench.remember(await bench.key(tenant="acme"), "acme's", tenant="acme")
    assert await bench.hit() is None
    assert await bench.hit(tenant="acme") == "acme's"


@pytest.mark.parametrize(("mode", "written"), [("bypass", False), ("refresh", True)])
async def test_a_query_may_go_past_the_cache(mode: str, written: bool) -> None:
    bench = Bench()
    await bench.remember(await bench.key(), "cached")
    routing = (await bench.route(cache=mode)).routing
    assert (routing.cache_key is not None) is written


async def test_a_change_of_the_corpus_ends_what_was_cached() -> None:
    bench = Bench()
    await bench.remember(await bench.key(), "cached")
    assert await bench.hit() == "cached"
    await bench.generations.bump("another")
    assert await bench.hit() == "cached"
    await bench.generations.bump("default")
    assert await bench.hit() is None
    assert (await bench.route()).routing.corpus_generation == 1


async def test_without_a_corpus_generation_nothing_is_cached() -> None:
    bench = Bench()
    await bench.remember(await bench.key(), "cached")
    bench.generations.down = True
    assert (await bench.route()).routing.cache_key is None


async def test_without_a_cache_nothing_is_cached() -> None:
    assert (await Bench(cache=None).route()).routing.cache_key is None


@pytest.mark.parametrize(
    "other",
    [
        Bench(model="gpt"),
        Bench(prompt_version="2"),
        Bench(configuration="other settings"),
        Bench(default="NEWS"),
        Bench(products=[]),
        Bench(DOCS, NEWS),
        Bench(RoutePlan("DOCS", "documentation", ("docs",), keep=5), NEWS, ACCOUNT),
    ],
    ids=["model", "prompt", "configuration", "default", "products", "routes", "limits"],
)
async def test_settings_that_shape_answers_are_part_of_the_key(other: Bench) -> None:
    assert await other.key() != await Bench().key()
    assert await Bench().key() == await Bench().key()


# --- conversations -------------------------------------------------------------------------


async def talk(bench: Bench, **fields: object) -> None:
    said = {"conversation_id": "c", "question": "What is Kafka?", "text": "A log."}
    await bench.history.save(answer(**{**said, **fields}))


async def test_the_history_is_loaded_where_the_client_did_not_send_it() -> None:
    bench = Bench()
    await talk(bench)
    routing = (await bench.route(conversation_id="c")).routing
    assert [turn.text for turn in routing.history] == ["What is Kafka?", "A log."]
    assert routing.cache_key not in (await bench.key(), await bench.key(conversation_id="new"))


@pytest.mark.parametrize("sent", [[], [{"role": "user", "text": "Hello."}]])
async def test_a_history_that_the_client_sent_counts_alone(sent: list[dict[str, str]]) -> None:
    bench = Bench()
    await talk(bench)
    history = (await bench.route(conversation_id="c", history=sent)).routing.history
    assert [turn.text for turn in history] == [turn["text"] for turn in sent]


async def test_a_sent_history_and_the_same_one_loaded_are_one_question() -> None:
    bench = Bench()
    await talk(bench)
    sent = [
        {"role": "user", "text": "What is Kafka?"},
        {"role": "assistant", "text": "A log."},
    ]
    assert await bench.key(history=sent) == await bench.key(conversation_id="c")


async def test_another_users_conversation_is_not_read() -> None:
    bench = Bench()
    await talk(bench, user_id="ann")
    assert (await bench.route(conversation_id="c", user_id="bob")).routing.history == ()
    assert (await bench.route(conversation_id="c", tenant="x")).routing.history == ()
    assert (await bench.route(conversation_id="c", user_id="ann")).routing.history


async def test_the_latest_turns_are_used() -> None:
    turns = [{"role": "user", "text": str(number)} for number in range(5)]
    for limit, kept in ((2, ["3", "4"]), (0, []), (9, ["0", "1", "2", "3", "4"])):
        bench = Bench(history_turns=limit)
        await talk(bench)
        history = (await bench.route(history=turns)).routing.history
        assert [turn.text for turn in history] == kept
        loaded = (await bench.route(conversation_id="c")).routing.history
        assert len(loaded) == min(limit, 2)
