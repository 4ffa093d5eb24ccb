"""Intent classifiers and rerankers: rules and fusion order, and a model behind the API."""

import asyncio

import pytest

from ragstream.adapters.openai import OpenAIIntentClassifier, OpenAIReranker, connect
from ragstream.adapters.rules import FusionOrder, RuleClassifier
from ragstream.domain.errors import (
    ConfigurationError,
    DependencyUnavailable,
    GenerationFailed,
    RerankRejected,
    TransientError,
)
from ragstream.domain.evidence import Document, Metadata
from ragstream.domain.ports import RouteDescription
from ragstream.testing import OpenAIServer

ROUTES = (
    RouteDescription("DOCS", "documentation of software"),
    RouteDescription("NEWS", "news of companies and markets"),
)


def documents(count: int, *, score=lambda index: 1 / (61 + index)) -> list[Document]:
    return [
        Document(
            id=f"00000000-0000-0000-0000-{index:012}",
            document_id=f"d{index}",
            collection="docs",
            text=f"text {index} " + "x" * 1000,
            score=score(index),
            metadata=Metadata(title=f"Title {index}", url=f"http://{index}"),
        )
        for index in range(count)
    ]


@pytest.fixture
async def server():
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def client(server):
    async with connect(server.base_url) as client:
        yield client


# --- intent --------------------------------------------------------------------------------


@pytest.fixture
def rules_classifier():
    return RuleClassifier({"NEWS": [r"\bnews\b", r"\bmarkets?\b"], "DOCS": ["documentation"]})


@pytest.fixture
def openai_classifier(client):
    return OpenAIIntentClassifier(client, "m")


@pytest.fixture(params=["rules", "openai"])
def classifier(request):
    return request.getfixturevalue(f"{request.param}_classifier")


@pytest.mark.parametrize(
    ("text", "route"),
    [("What is the NEWS of the markets?", "NEWS"), ("Where is the documentation?", "DOCS")],
)
async def test_classifiers_name_one_of_the_routes(classifier, text, route):
    assert await classifier.classify(text, ROUTES, timeout=5) == route


async def test_classifiers_name_only_what_was_offered(classifier):
    assert await classifier.classify("news", ROUTES[:1], timeout=5) in (None, "DOCS")


async def test_rules_in_order_and_none_without_a_match(rules_classifier):
    both = "documentation in the news"
    assert await rules_classifier.classify(both, ROUTES, timeout=5) == "NEWS"
    assert await rules_classifier.classify("newspaper", ROUTES, timeout=5) is None


def test_a_rule_that_is_no_pattern():
    with pytest.raises(ConfigurationError, match="DOCS"):
        RuleClassifier({"DOCS": ["("]})


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "NEWS",
        '"NEWS"',
        '["NEWS"]',
        '{"route": "WEATHER"}',
        '{"route": null}',
        '{"route": ["NEWS"]}',
        '{"route": "NEWS", "more": 1}',
        '{"Route": "NEWS"}',
        'So: {"route": "NEWS"}',
        "[" * 100_000,
    ],
)
async def test_a_reply_that_names_no_known_route_is_none(server, openai_classifier, reply):
    server.reply(reply)
    assert await openai_classifier.classify("news?", ROUTES, timeout=5) is None


async def test_intent_request(server, openai_classifier):
    server.reply('{"route": "NEWS"}')
    assert await openai_classifier.classify("What happened?", ROUTES, timeout=5) == "NEWS"
    [call] = server.calls
    assert call.wants_json
    assert call.body["temperature"] == 0
    assert "- NEWS: news of companies" in call.text
    assert "What happened?" in call.user
    assert '{"route"' in call.text, "the prompt must ask for the form that is read"


# --- rerank --------------------------------------------------------------------------------


@pytest.fixture
def fusion_reranker():
    return FusionOrder()


@pytest.fixture
def openai_reranker(client):
    return OpenAIReranker(client, "judge")


@pytest.fixture(params=["fusion", "openai"])
def reranker(request):
    return request.getfixturevalue(f"{request.param}_reranker")


@pytest.mark.parametrize("count", [0, 1, 2, 8])
@pytest.mark.parametrize("keep", [1, 6, 20])
async def test_rankings_are_valid(reranker, count, keep):
    ranking = await reranker.rerank("q", documents(count), keep=keep, timeout=5)
    assert len(ranking.order) == len(set(ranking.order)) <= min(count, keep)
    assert all(0 <= index < count for index in ranking.order)
    assert len(ranking.scores) in (0, len(ranking.order))
    assert all(0 < score < 1 for score in ranking.scores)
    assert sorted(ranking.scores, reverse=True) == list(ranking.scores)


@pytest.mark.parametrize(
    "score",
    [
        lambda index: 1 / (61 + index),
        lambda index: 100.0 - index,
        lambda index: -float(index),
        lambda index: 0.0,
        lambda index: float(index + 1),
        lambda index: float("inf"),
        lambda index: float("nan"),
    ],
)
async def test_fusion_order_is_kept_whatever_the_scores(score):
    ranking = await FusionOrder().rerank("q", documents(5, score=score), keep=4, timeout=5)
    assert ranking.order == (0, 1, 2, 3)
    assert ranking.ranked_by == "fusion"
    assert all(0 < value < 1 for value in ranking.scores)
    assert sorted(ranking.scores, reverse=True) == list(ranking.scores)


async def test_the_model_selects_and_orders(server, openai_reranker):
    server.reply('{"order": [3, 0, 1]}')
    ranking = await openai_reranker.rerank("why?", documents(5), keep=2, timeout=5)
    assert ranking.order == (3, 0)
    assert ranking.scores == ()
    assert ranking.ranked_by == "judge"
    [call] = server.calls
    assert call.wants_json
    assert call.body["temperature"] == 0
    assert "[4] Title 4 | http://4\ntext 4 x" in call.text
    assert "why?" in call.text
    longest = max(len(line) for line in call.text.splitlines() if line.startswith("text "))
    assert longest == 500


async def test_the_model_may_find_nothing_relevant(server, openai_reranker):
    server.reply('{"order": []}')
    assert (await openai_reranker.rerank("q", documents(3), keep=2, timeout=5)).order == ()


async def test_nothing_to_order_is_not_asked(server, openai_reranker):
    for count in (0, 1):
        ranking = await openai_reranker.rerank("q", documents(count), keep=6, timeout=5)
        assert ranking.order == tuple(range(count))
    assert server.calls == []


@pytest.mark.parametrize("reply", ["", "```json\n{}\n```", '{"order": [9]}', '{"order": [0, 0]}'])
async def test_a_reply_that_is_no_order_is_rejected(server, openai_reranker, reply):
    server.reply(reply)
    with pytest.raises(RerankRejected):
        await openai_reranker.rerank("q", documents(3), keep=2, timeout=5)


# --- failures of both ----------------------------------------------------------------------


@pytest.fixture(params=["classify", "rerank"])
def ask(request, openai_classifier, openai_reranker):
    """One judgement, whichever it is."""

    async def classify(timeout):
        return await openai_classifier.classify("q", ROUTES, timeout=timeout)

    async def rerank(timeout):
        return await openai_reranker.rerank("q", documents(3), keep=2, timeout=timeout)

    return {"classify": classify, "rerank": rerank}[request.param]


async def test_failures(server, ask):
    server.fail(429, retry_after=3, times=1)
    with pytest.raises(TransientError) as caught:
        await ask(5)
    assert caught.value.retry_after == 3
    server.no_choices(times=1)
    with pytest.raises(GenerationFailed):
        await ask(5)
    server.reply(finish_reason="content_filter", times=1)
    with pytest.raises(GenerationFailed):
        await ask(5)
    server.break_off(times=1)
    with pytest.raises(DependencyUnavailable):
        await ask(5)
    server.garble(times=1)
    with pytest.raises(TransientError, match="not valid"):
        await ask(5)
    server.hang(times=1)
    with pytest.raises(TransientError, match="in time"):
        async with asyncio.timeout(30):
            await ask(0.05)
    await server.stop()
    with pytest.raises(DependencyUnavailable):
        await ask(5)
