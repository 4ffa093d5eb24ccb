"""The reference pipeline's properties, and what ours they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ragstream.settings.answering import EmbeddingsSettings, RagSettings
from ragstream.settings.services import CollectionNames, QdrantSettings
from ragstream.settings.types import Section

__all__ = ["REFERENCE", "validate_reference"]

#: Property of the reference → path of ours.
REFERENCE: dict[str, tuple[str, ...]] = {
    "app.qdrant.dense-vector-name": ("qdrant", "dense_vector_name"),
    "app.qdrant.sparse-vector-name": ("qdrant", "sparse_vector_name"),
    "app.qdrant.prefetch-limit": ("qdrant", "prefetch_limit"),
    "app.qdrant.rrf-k": ("qdrant", "rrf_k"),
    "app.qdrant.query-timeout": ("qdrant", "query_timeout"),
    "app.qdrant.ensure-payload-indexes": ("qdrant", "ensure_payload_indexes"),
    "app.qdrant.ensure-collections": ("qdrant", "ensure_collections"),
    "app.qdrant.collections.books": ("qdrant", "collections", "books"),
    "app.qdrant.collections.docs": ("qdrant", "collections", "docs"),
    "app.qdrant.collections.articles": ("qdrant", "collections", "articles"),
    "app.qdrant.collections.pdfs": ("qdrant", "collections", "pdfs"),
    "app.rag.search-top-k": ("rag", "search_top_k"),
    "app.rag.search-return-k": ("rag", "search_return_k"),
    "app.rag.reranker-timeout": ("rag", "reranker_timeout"),
    "app.rag.search-citations": ("rag", "search_citations"),
    "app.rag.search-mmr-lambda": ("rag", "search_mmr_lambda"),
    "app.rag.chunk-max-tokens": ("rag", "chunk_max_tokens"),
    "app.rag.chunk-overlap-tokens": ("rag", "chunk_overlap_tokens"),
    "app.embeddings.model": ("embeddings", "model"),
    "app.embeddings.dimensions": ("embeddings", "dimensions"),
}

_SECTIONS: dict[str, type[Section]] = {
    "qdrant": QdrantSettings,
    "rag": RagSettings,
    "embeddings": EmbeddingsSettings,
}
_KINDS = tuple(CollectionNames.model_fields)


def _short_names() -> dict[str, tuple[str, ...]]:
    """``search_top_k``, ``rag.search_top_k``, ``embedding_model``, ``collections.books``, …"""
    names: dict[str, tuple[str, ...]] = {}
    for path in REFERENCE.values():
        names[".".join(path)] = names[".".join(path[1:])] = path
        if path[0] == "embeddings":
            names[f"embedding_{path[1]}"] = names[f"embeddings_{path[1]}"] = path
    return names | {"collections": ("qdrant", "collections")}


_PATHS = _short_names()


def validate_reference(settings: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings given by the reference's names; empty when they are valid.

    A name may be short (``search_top_k``, ``embedding_model``) or in full
    (``app.rag.search-top-k``). What is not given has the reference's default. ``collections`` is
    a mapping by kind, or a list of books, docs, articles and pdfs.
    """
    problems = []
    given: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for name, value in settings.items():
        path = _PATHS.get(name.replace("-", "_").removeprefix("app."))
        if path is None:
            problems.append(f"{name}: no such setting")
            continue
        *sections, last = path
        target = given[sections[0]]
        for section in sections[1:]:
            target = target.setdefault(section, {})
        target[last] = _by_kind(value) if last == "collections" else value
    for section, model in _SECTIONS.items():
        try:
            model.model_validate(given[section])
        except ValidationError as error:
            problems += [
                f"{'.'.join(map(str, (section, *item['loc'])))}: {item['msg']}"
                for item in error.errors(include_url=False, include_input=False)
            ]
    return problems


def _by_kind(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return dict(zip(_KINDS, value, strict=False))
    return value
