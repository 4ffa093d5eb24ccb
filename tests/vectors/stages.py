"""From a vector's input to the public function of its stage, and back to JSON."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ragstream.domain.errors import ContextDoesNotFit, PermanentError, RerankRejected
from ragstream.domain.evidence import Document, Metadata, SearchMode
from ragstream.prompting.citations import citations
from ragstream.prompting.context import Priority, Segment, fit
from ragstream.prompting.quality import assess
from ragstream.prompting.rerank import parse_order
from ragstream.retrieval.analysis import standard, standard_tokens
from ragstream.retrieval.chunking import chunk_windows
from ragstream.retrieval.coverage import CoverageImpossible, cover_releases
from ragstream.retrieval.decay import by_recency, decay
from ragstream.retrieval.dedupe import dedupe
from ragstream.retrieval.fusion import merge_points, rrf_score
from ragstream.retrieval.self_query import ExtractionRejected, inferred_filter
from ragstream.retrieval.sparse import TfEncoder, murmur3_32
from ragstream.retrieval.versions import (
    JAVA,
    VersionConflict,
    boost,
    clean_versions,
    intersect_versions,
    requested_releases,
    resolve_release,
    resolve_releases,
)

NOW = datetime(2026, 1, 10, tzinfo=UTC)


@dataclass(frozen=True)
class Stage:
    """``errors``: the stage's own kind, in which a rejected case must end."""

    run: Callable[[Any], Any]
    errors: tuple[type[Exception], ...] = (PermanentError,)


def _document(given: dict[str, Any], position: int = 0) -> Document:
    published = None
    if given.get("days_old") is not None:
        published = NOW - timedelta(days=given["days_old"])
    return Document(
        id=str(given.get("id", position)),
        document_id=str(given.get("id", position)),
        collection="docs",
        text=str(given.get("text", "x" * given.get("text_len", given.get("text_length", 0)))),
        score=given.get("score", 0.0),
        metadata=Metadata(
            url=given.get("url"),
            anchor=given.get("anchor"),
            hash=given.get("hash"),
            doc_version=given.get("docVersion", given.get("version")),
            published_at=published,
        ),
    )


def _documents(given: list[dict[str, Any]]) -> list[Document]:
    return [_document(one, position) for position, one in enumerate(given)]


def _adjacency_multi(given: dict[str, Any]) -> dict[str, Any]:
    resolved = resolve_releases(given["requested"], given["indexed"])
    return {
        "evidence_union": list(resolved.evidence),
        "relations": {name: list(one.evidence) for name, one in resolved.relations.items()},
        "exact": {name: one.exact for name, one in resolved.relations.items()},
    }


def _adjacency(given: dict[str, Any]) -> dict[str, Any]:
    resolved = resolve_release(given["requested"], given["indexed"])
    return {"evidence": list(resolved.evidence), "exact": resolved.exact}


def _constraint(given: dict[str, Any]) -> list[str]:
    if "docVersions" in given:
        return list(clean_versions(given["docVersions"]))
    return list(intersect_versions(given["existing"], given["required"]))


def _sparse_encode(text: str | None) -> dict[str, Any]:
    vector = TfEncoder().encode_passage(text or "")
    return {"indices": list(vector.indices), "values": list(vector.values)}


def _sparse_cap(given: dict[str, Any]) -> dict[str, Any]:
    vector = TfEncoder().encode_passage(given["text"])
    joined = ",".join(map(str, vector.indices))
    return {
        "kept": len(vector.indices),
        "max_value": max(vector.values),
        "sha256_of_comma_joined_indices": hashlib.sha256(joined.encode()).hexdigest(),
    }


def _merge_points(given: dict[str, Any]) -> list[dict[str, Any]]:
    results = {name: _documents(given["results"].get(name, [])) for name in given["order"]}
    merged = merge_points(results, given["topK"])
    return [{"id": p.id, "collection": name, "score": p.score} for name, p in merged]


def _release(one: Any) -> str | None:
    """Candidates are written as ids that begin with their release: ``21a``."""
    if isinstance(one, dict):
        return one.get("docVersion", one.get("version"))
    found = re.match(r"\d+(?:\.\d+)*", one)
    return found[0] if found else None


def _version_coverage(given: dict[str, Any]) -> list[Any]:
    covered = cover_releases(
        given["reranked"], given["candidates"], given["requested"], given["limit"], _release
    )
    return [one["id"] if isinstance(one, dict) else one for one in covered]


def _citation(given: list[dict[str, Any]]) -> Any:
    return [
        {"url": one.url or "", "anchor": one.anchor or "", "snippet_len": len(one.snippet)}
        for one in citations(_documents(given))
    ]


def _citation_limit(given: dict[str, Any]) -> list[str]:
    made = citations(
        [_document({"url": url}, n) for n, url in enumerate(given["candidates"])],
        limit=given["limit"],
    )
    return [f"{c.url}#{c.anchor}" if c.anchor else str(c.url) for c in made]


def _prompt_truncate(given: dict[str, Any]) -> dict[str, Any]:
    fitted = fit(
        given["system"],
        given["query"],
        [Segment(name, tokens, Priority(level)) for name, tokens, level in given["docs"]],
        [Segment(name, tokens, Priority.MEDIUM) for name, tokens in given["turns"]],
        given["max_tokens"],
    )
    return {
        "docs": list(fitted.documents),
        "ctx_numbers": [number for number, _ in enumerate(fitted.documents, start=1)],
        "turns": list(fitted.turns),
        "truncated": fitted.truncated,
    }


def _search_quality(given: list[dict[str, Any]]) -> str:
    keyword = any(
        "local-search" in (one.get("url") or "") or "keyword" in (one.get("url") or "")
        for one in given
    )
    mode = SearchMode.SPARSE_ONLY if keyword else SearchMode.HYBRID
    return assess([document.text for document in _documents(given)], mode).value


def _temporal_rank(given: dict[str, Any]) -> list[dict[str, Any]]:
    ranked = by_recency(_documents(given["docs"]), NOW)
    return [{"id": document.id, "score": document.score} for document in ranked]


def _self_query(given: dict[str, Any]) -> dict[str, Any]:
    inferred = inferred_filter(given["llm_json"], datetime.fromisoformat(given["now"]))
    since = inferred.published_since
    return {
        "filter": [
            {"key": "published_at", "gte": since.isoformat().replace("+00:00", "Z")}
            for since in [since]
            if since is not None
        ],
        "source_condition": (
            None if inferred.source is None else {"key": "source", "match": inferred.source}
        ),
    }


def _config_validate(given: dict[str, Any]) -> dict[str, Any]:
    from ragstream.settings import validate_reference  # imports much; few cases need it

    return {"valid": not validate_reference(given)}


def _chunk_windows(given: dict[str, Any]) -> list[list[int]]:
    return [list(w) for w in chunk_windows(given["tokens"], given["max"], given["overlap"])]


STAGES: dict[str, Stage] = {
    "version_extract": Stage(lambda given: list(requested_releases(given["query"], JAVA))),
    "boost": Stage(lambda given: boost(given["query"], JAVA, given["versions"])),
    "adjacency": Stage(_adjacency),
    "adjacency_multi": Stage(_adjacency_multi),
    "tokenize": Stage(
        lambda text: {
            "analyzer_tokens": standard_tokens(text or ""),
            "kept_tokens": standard(text or ""),
        }
    ),
    "sparse_encode": Stage(_sparse_encode),
    "sparse_cap": Stage(_sparse_cap),
    "murmur3_32": Stage(murmur3_32),
    "constraint": Stage(_constraint, (VersionConflict,)),
    "merge_points": Stage(_merge_points),
    "rrf_score": Stage(lambda given: rrf_score(given["k"], given["rank_zero_based"])),
    "dedupe": Stage(lambda given: [document.id for document in dedupe(_documents(given))]),
    "version_coverage": Stage(_version_coverage, (CoverageImpossible,)),
    "rerank_parse": Stage(
        lambda given: {
            "order": list(
                parse_order(given["response"] or "", given["candidates"], given["return_k"])
            )
        },
        (RerankRejected,),
    ),
    "citation": Stage(_citation),
    "citation_limit": Stage(_citation_limit),
    "prompt_truncate": Stage(_prompt_truncate, (ContextDoesNotFit,)),
    "search_quality": Stage(_search_quality),
    "temporal_decay": Stage(lambda given: decay(given["days_old"])),
    "temporal_rank": Stage(_temporal_rank),
    "self_query_filter": Stage(_self_query, (ExtractionRejected,)),
    "chunk_windows": Stage(_chunk_windows, (ValueError,)),
    "config_validate": Stage(_config_validate),
}
