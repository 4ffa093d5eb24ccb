"""A chat model that judges: which route a question takes, and which documents matter.

Both run in JSON mode at temperature 0 and read the reply strictly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from openai import AsyncOpenAI

from ragstream.adapters.openai.endpoint import complete_json
from ragstream.domain.evidence import Document
from ragstream.domain.ports import ChatMessage, Ranking, RouteDescription
from ragstream.prompting.prompts import intent_prompt, rerank_prompt
from ragstream.prompting.rerank import parse_order

__all__ = ["OpenAIIntentClassifier", "OpenAIReranker"]


class OpenAIIntentClassifier:
    """Asks for ``{"route": name}``. Any other reply, or a route that was not offered, is None."""

    def __init__(
        self, client: AsyncOpenAI, model: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        self._client = client
        self._model = model
        self._headers = headers

    async def classify(
        self, text: str, routes: Sequence[RouteDescription], *, timeout: float
    ) -> str | None:
        reply = await complete_json(
            self._client,
            self._model,
            [ChatMessage("user", intent_prompt(text, routes))],
            timeout=timeout,
            headers=self._headers,
        )
        try:
            match json.loads(reply):
                case {"route": str(name), **rest} if not rest:
                    return name if any(route.name == name for route in routes) else None
        except (ValueError, RecursionError):
            pass
        return None


class OpenAIReranker:
    """Has a chat model select and order the candidates.

    No candidate and a single one are returned without a call. A model gives an order and no
    scores. Raises ``RerankRejected`` for a reply that is not exactly ``{"order": [...]}``: there
    is no fallback to the order that was.
    """

    def __init__(
        self, client: AsyncOpenAI, model: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        self._client = client
        self._model = model
        self._headers = headers

    async def rerank(
        self, query: str, documents: Sequence[Document], *, keep: int, timeout: float
    ) -> Ranking:
        if len(documents) < 2:
            return Ranking(tuple(range(len(documents)))[:keep])
        reply = await complete_json(
            self._client,
            self._model,
            [ChatMessage("user", rerank_prompt(query, documents))],
            timeout=timeout,
            headers=self._headers,
        )
        return Ranking(parse_order(reply, len(documents), keep), ranked_by=self._model)
