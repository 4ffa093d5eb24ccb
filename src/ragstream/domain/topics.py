"""The topics and what they are for. Names are ``<prefix>.<name>.v<major>``."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TOPIC_KINDS", "TopicKind", "Topics"]


@dataclass(frozen=True, slots=True)
class TopicKind:
    """A topic without its prefix.

    ``event``: name of the event type it carries; ``best_effort``: losing a record is allowed;
    ``dlt``: consumed by a stage, so it has a dead-letter topic.
    """

    name: str
    event: str
    purpose: str
    best_effort: bool = False
    dlt: bool = False


TOPIC_KINDS: tuple[TopicKind, ...] = (
    TopicKind("queries", "Query", "Questions. Publish here.", dlt=True),
    TopicKind("routed", "Routed", "Queries with their route, versions and deadline.", dlt=True),
    TopicKind("retrieved", "Retrieved", "Queries with their candidate evidence.", dlt=True),
    TopicKind("reranked", "Reranked", "Queries with the evidence that was kept.", dlt=True),
    TopicKind("answers", "Answer", "One outcome per query. Subscribe here.", dlt=True),
    TopicKind("control", "Cancel", "Requests to cancel a query."),
    TopicKind("rejections", "Rejection", "Queries that were not accepted, and why."),
    TopicKind(
        "answer-deltas", "AnswerDelta", "Pieces of an answer as they come.", best_effort=True
    ),
    TopicKind("documents", "DocumentEvent", "Documents to index or to remove.", dlt=True),
    TopicKind("index-changes", "IndexChange", "Each change of a tenant's corpus."),
)


class Topics:
    """Full topic names under one prefix.

    >>> Topics("ragstream").queries
    'ragstream.queries.v1'
    >>> Topics("ragstream").dlt("ragstream.queries.v1")
    'ragstream.queries.v1.dlt'
    """

    def __init__(self, prefix: str = "ragstream", version: int = 1) -> None:
        self.prefix = prefix
        self.version = version
        self.queries = self.named("queries")
        self.routed = self.named("routed")
        self.retrieved = self.named("retrieved")
        self.reranked = self.named("reranked")
        self.answers = self.named("answers")
        self.control = self.named("control")
        self.rejections = self.named("rejections")
        self.answer_deltas = self.named("answer-deltas")
        self.documents = self.named("documents")
        self.index_changes = self.named("index-changes")

    def named(self, name: str) -> str:
        return f"{self.prefix}.{name}.v{self.version}"

    def dlt(self, topic: str) -> str:
        return f"{topic}.dlt"

    def group(self, stage: str) -> str:
        """Consumer group of a stage."""
        return f"{self.prefix}.{stage}"

    def all(self) -> list[str]:
        """Every topic, dead-letter topics included."""
        names = []
        for kind in TOPIC_KINDS:
            topic = self.named(kind.name)
            names.append(topic)
            if kind.dlt:
                names.append(self.dlt(topic))
        return names

    def owns(self, topic: str) -> bool:
        """Whether the name lies under our prefix (and so can't be a reply_to)."""
        return topic.startswith(f"{self.prefix}.")
