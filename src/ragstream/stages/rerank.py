"""Rerank: keep the documents that matter, most relevant first."""

from __future__ import annotations

from collections.abc import Sequence

from ragstream.domain.events import Evidence, Reranked, Retrieved
from ragstream.domain.evidence import Document
from ragstream.domain.ports import Clock, Reranker, VectorStore
from ragstream.retrieval.coverage import cover_releases
from ragstream.stages.references import resolved, within_budget

__all__ = ["Rerank"]


class Rerank:
    """The stage. ``timeout``: seconds for the reranker's call, never past the deadline;
    ``byte_budget``: bytes of documents an event may carry."""

    def __init__(
        self,
        reranker: Reranker,
        store: VectorStore,
        *,
        clock: Clock,
        timeout: float = 8.0,
        byte_budget: int = 800_000,
    ) -> None:
        self._reranker = reranker
        self._store = store
        self._clock = clock
        self._timeout = timeout
        self._byte_budget = byte_budget

    async def __call__(self, job: Retrieved) -> Reranked:
        remaining = max(0.001, (job.deadline - self._clock.now()).total_seconds())
        candidates = await resolved(job.evidence.documents, self._store, job.tenant)
        ranking = await self._reranker.rerank(
            job.query.text, candidates, keep=job.routing.keep, timeout=min(self._timeout, remaining)
        )
        ranked = [candidates[index] for index in ranking.order]
        if ranking.scores:
            ranked = [
                document.model_copy(update={"score": score})
                for document, score in zip(ranked, ranking.scores, strict=True)
            ]
        kept = within_budget(
            _covering(ranked, candidates, job) if ranked else [], self._byte_budget
        )
        evidence = Evidence.model_validate(
            {**dict(job.evidence), "documents": tuple(kept), "ranked_by": ranking.ranked_by}
        )
        return Reranked.model_validate(
            {**dict(job), **(job.model_extra or {}), "evidence": evidence}
        )


def _covering(
    ranked: Sequence[Document], candidates: Sequence[Document], job: Retrieved
) -> list[Document]:
    """The first ``keep``, with each requested release represented where it has a candidate."""
    keep = job.routing.keep
    if job.routing.versions is None:
        return list(ranked[:keep])
    wanted: dict[str, None] = {}
    for requested in job.routing.versions.releases:
        # One that is kept anyway before any other: neighbours stand for the same release.
        serving = next(
            (
                document
                for document in (*ranked[:keep], *candidates)
                if document.version and requested in document.version.requested
            ),
            None,
        )
        if serving is not None and serving.metadata.doc_version is not None:
            wanted[serving.metadata.doc_version] = None
    releases = list(wanted)[:keep]
    return cover_releases(ranked, candidates, releases, keep, lambda d: d.metadata.doc_version)
