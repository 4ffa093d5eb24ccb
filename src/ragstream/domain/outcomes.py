"""Terminal outcomes that any stage may come to."""

from __future__ import annotations

from datetime import datetime

from ragstream.domain.errors import QueryCancelled, RagstreamError
from ragstream.domain.events import Answer, AnswerStatus, Failure, Job, Routed, StageTiming

__all__ = ["failed_answer", "with_timing"]


def failed_answer(job: Job, error: BaseException, *, stage: str, now: datetime) -> Answer:
    """The asker's failed (or cancelled) answer. Errors that nobody raised on purpose show no
    detail: it may hold what the asker must not see."""
    cancelled = isinstance(error, QueryCancelled)
    failure = None
    if not cancelled:
        known = isinstance(error, RagstreamError)
        failure = Failure(
            message=str(error) if known else "internal error",
            code=error.code if isinstance(error, RagstreamError) else "internal",
            retryable=error.retryable if isinstance(error, RagstreamError) else False,
            stage=stage,
        )
    query = job.query
    return Answer(
        query_id=query.query_id,
        tenant=query.tenant,
        user_id=query.user_id,
        conversation_id=query.conversation_id,
        question=query.text,
        status=AnswerStatus.CANCELLED if cancelled else AnswerStatus.FAILED,
        route=job.routing.route if isinstance(job, Routed) else None,
        generation=job.generation,
        degraded=job.degraded,
        accepted_at=job.accepted_at,
        completed_at=now,
        timings=job.timings,
        failure=failure,
    )


def with_timing(job: Job, stage: str, *, queued: float, worked: float) -> tuple[StageTiming, ...]:
    """The job's timings and this stage's. Seconds in, milliseconds out."""
    timing = StageTiming(
        stage=stage, queued_ms=round(max(queued, 0) * 1000, 2), work_ms=round(worked * 1000, 2)
    )
    return (*job.timings, timing)
