"""Retrieve: encode the question, search, bring the collections' hits into one list."""

from __future__ import annotations

import asyncio

from ragstream.domain.errors import DependencyUnavailable
from ragstream.domain.events import Evidence, Retrieved, Routed
from ragstream.domain.evidence import (
    Document,
    Scope,
    SearchMode,
    SearchRequest,
    VersionConstraint,
    VersionRelation,
)
from ragstream.domain.ports import (
    CorpusGenerations,
    DenseEncoder,
    SparseEncoder,
    VectorStore,
)
from ragstream.retrieval.decay import by_recency
from ragstream.retrieval.dedupe import dedupe
from ragstream.retrieval.fusion import fuse_by_rank
from ragstream.retrieval.versions import Resolutions, resolve_releases
from ragstream.stages.references import within_budget

__all__ = ["Retrieve"]


class Retrieve:
    """The stage. ``timeout``: seconds for the search of all collections together;
    ``byte_budget``: bytes of documents an event may carry, beyond which they go by reference."""

    def __init__(
        self,
        store: VectorStore,
        *,
        dense: DenseEncoder,
        sparse: SparseEncoder,
        generations: CorpusGenerations,
        timeout: float = 10.0,
        rrf_k: int = 60,
        byte_budget: int = 800_000,
    ) -> None:
        self._store = store
        self._dense = dense
        self._sparse = sparse
        self._generations = generations
        self._timeout = timeout
        self._rrf_k = rrf_k
        self._byte_budget = byte_budget

    async def __call__(self, job: Routed) -> Retrieved:
        routing = job.routing
        if not routing.collections:
            return _with_evidence(job, Evidence(corpus_generation=routing.corpus_generation))
        # Noted before the search: an answer is cached only if it is still the same afterwards.
        generation, resolutions, dense = await asyncio.gather(
            self._generation(job.tenant, fallback=routing.corpus_generation),
            self._resolve(job),
            self._dense.encode_query(routing.search_text),
        )
        hits = await self._store.search(
            SearchRequest(
                collections=routing.collections,
                scope=Scope(job.tenant, job.query.user_id),
                dense=dense,
                sparse=self._sparse.encode_query(_keywords(job, resolutions)),
                limit=routing.candidates,
                prefetch=routing.prefetch,
                # Not the query's remaining time: a slow search is an outage, a late query is not.
                timeout=self._timeout,
                rrf_k=self._rrf_k,
                filters=routing.filters,
                versions=_constraint(job, resolutions),
                private_only=routing.private,
            )
        )
        lists = list(hits.by_collection.values())
        found = dedupe(fuse_by_rank(lists, self._rrf_k))
        if routing.decay:
            found = by_recency(found, job.accepted_at)
        documents = [_labelled(document, job, resolutions) for document in found]
        evidence = Evidence(
            documents=tuple(within_budget(documents[: routing.candidates], self._byte_budget)),
            mode=hits.mode,
            corpus_generation=generation,
            considered=sum(map(len, lists)),
            encoder=self._dense.model if hits.mode is not SearchMode.SPARSE_ONLY else None,
        )
        return _with_evidence(job, evidence)

    async def _generation(self, tenant: str, *, fallback: int) -> int:
        try:
            return await self._generations.current(tenant)
        except DependencyUnavailable:
            return fallback

    async def _resolve(self, job: Routed) -> Resolutions | None:
        """Indexed releases that serve the requested ones."""
        versions = job.routing.versions
        if versions is None:
            return None
        indexed = await self._store.releases(job.routing.collections, job.tenant, versions.product)
        return resolve_releases(versions.releases, indexed) if indexed else None


def _keywords(job: Routed, resolutions: Resolutions | None) -> str:
    """What the keyword side looks for. With a filter on the releases their numbers and the boost
    would only prefer pages that happen to spell them."""
    if resolutions is None:
        return job.routing.search_text
    return job.routing.keyword_text or job.routing.search_text


def _constraint(job: Routed, resolutions: Resolutions | None) -> VersionConstraint | None:
    if resolutions is None or job.routing.versions is None:
        return None
    return VersionConstraint(job.routing.versions.product, resolutions.evidence)


def _labelled(document: Document, job: Routed, resolutions: Resolutions | None) -> Document:
    """The document with its relation to the releases that were asked for."""
    release = document.metadata.doc_version
    versions = job.routing.versions
    if resolutions is None or versions is None or release is None:
        return document
    serves = {
        requested: resolution
        for requested, resolution in resolutions.relations.items()
        if release in resolution.evidence
    }
    if not serves:
        return document
    relation = VersionRelation(
        product=versions.product,
        requested=tuple(serves),
        evidence=release,
        exact=any(resolution.exact for resolution in serves.values()),
    )
    return document.model_copy(update={"version": relation})


def _with_evidence(job: Routed, evidence: Evidence) -> Retrieved:
    return Retrieved.model_validate({**dict(job), **(job.model_extra or {}), "evidence": evidence})
