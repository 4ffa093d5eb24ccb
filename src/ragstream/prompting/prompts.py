"""Prompt templates: package data, versioned by name and content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from ragstream.domain.evidence import Document
from ragstream.domain.ports import RouteDescription

__all__ = ["PromptTemplate", "intent_prompt", "load", "rerank_prompt"]

RERANK_TEXT_LENGTH = 500  # characters of each document that the reranking model sees


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """``text`` with ``$name`` placeholders. ``version``: ``answer@1f3870be27`` changes with
    every character of the text."""

    name: str
    text: str
    version: str

    def fill(self, **values: object) -> str:
        """The text with every placeholder replaced. Raises KeyError for one without a value."""
        return Template(self.text).substitute(values)


@cache
def load(name: str) -> PromptTemplate:
    """Load ``templates/<name>.md``. Raises FileNotFoundError."""
    text = (files("ragstream.prompting") / "templates" / f"{name}.md").read_text("utf-8").strip()
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return PromptTemplate(name, text, f"{name}@{digest}")


def rerank_prompt(query: str, documents: Sequence[Document]) -> str:
    """Ask a model to select and order the documents; reply: see ``rerank.parse_order``.

    A document is two lines, whatever it holds, so that it can't begin another.
    """
    listed = "\n\n".join(
        f"[{index}] {_line(document.metadata.title)} | {_line(document.metadata.url)}\n"
        f"{_line(document.text[:RERANK_TEXT_LENGTH])}"
        for index, document in enumerate(documents)
    )
    return load("rerank").fill(
        count=len(documents), last=len(documents) - 1, query=_line(query), documents=listed
    )


def intent_prompt(question: str, routes: Sequence[RouteDescription]) -> str:
    """Ask a model which of the routes a question belongs to."""
    listed = "\n".join(f"- {route.name}: {_line(route.description)}" for route in routes)
    return load("intent").fill(routes=listed, question=_line(question))


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
