"""Answers for the suites of caches and histories."""

from datetime import UTC, datetime, timedelta

from ragstream.domain.events import (
    Answer,
    AnswerStatus,
    Citation,
    Failure,
    SentenceSupport,
    StageTiming,
    Usage,
)
from ragstream.domain.evidence import Metadata, VersionRelation

START = datetime(2026, 1, 10, 12, 0, 0, 123456, tzinfo=UTC)


def answer(query_id: str = "q1", *, minute: int = 0, **fields) -> Answer:
    """An answered query with everything in it, unless ``fields`` say otherwise."""
    values = {
        "query_id": query_id,
        "tenant": "acme",
        "user_id": "user-1",
        "conversation_id": "talk",
        "question": f"What of {query_id}?",
        "status": AnswerStatus.ANSWERED,
        "text": f"This of {query_id}: “naïve” 日本語 \U0001f600. [1]",
        "citations": (
            Citation(
                number=1,
                document_id="doc",
                chunk_id="00000000-0000-0000-0000-000000000001",
                title="Title",
                url="http://example.com/a?b=1#c",
                snippet="naïve",
                score=0.75,
                metadata=Metadata(doc_version="21", product="java", custom=[1, {"a": None}]),
                version=VersionRelation(
                    product="java", requested=("22",), evidence="21", exact=False
                ),
            ),
        ),
        "route": "DOCS",
        "model": "m",
        "prompt_version": "1",
        "support": (SentenceSupport(sentence="This.", score=0.5, citations=(1,)),),
        "usage": Usage(input_tokens=3, output_tokens=4),
        "finish_reason": "stop",
        "attempt": "0001",
        "accepted_at": START + timedelta(minutes=minute),
        "completed_at": START + timedelta(minutes=minute, seconds=2),
        "timings": (StageTiming(stage="route", queued_ms=0.5, work_ms=1.25),),
        "unknown_field": {"kept": [1, 2]},
    }
    return Answer.model_validate(values | fields)


def failed(query_id: str = "q1", **fields) -> Answer:
    failure = Failure(message="no", code="permanent", retryable=False, stage="answer")
    return answer(
        query_id, status=AnswerStatus.FAILED, text="", citations=(), failure=failure, **fields
    )
