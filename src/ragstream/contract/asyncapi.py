"""The AsyncAPI 3.0 document, from the topics and the events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstream.domain.declarations import TopicDeclaration, declare
from ragstream.domain.events import EVENT_TYPES
from ragstream.domain.topics import Topics
from ragstream.version import __version__
from ragstream.wire import SOURCE, event_id, type_name

__all__ = ["asyncapi", "channel_id"]

_BINDING = "0.5.0"
#: Written by anybody: structured mode and plain JSON are taken too.
_OPEN = ("Query", "DocumentEvent")
_EXAMPLE_TIME = "2026-01-10T12:00:00.000Z"
_DESCRIPTION = """\
Questions in, answers out. Publish a `Query` to `ragstream.queries.v1` and read the `Answer` with
its `query_id` from `ragstream.answers.v1`; the topics between them carry the work from stage to
stage and may be read by anyone.

Records are CloudEvents 1.0 in the binary mode of the Kafka protocol binding: attributes are
headers, the value is the event as JSON. On `ragstream.queries.v1` and `ragstream.documents.v1`
structured mode (`content-type: application/cloudevents+json`) and plain JSON without any header
are accepted as well.

Every accepted query gets one distinct terminal answer. It may appear more than once; repeats have
the same value, key and `ce_id`, so consumers deduplicate on `ce_source` and `ce_id`. Readers must
ignore fields that they do not know. The prefix `ragstream` is a setting.
"""


def asyncapi(examples: Mapping[str, Any]) -> dict[str, Any]:
    """The document. ``examples``: an example of each event by its name."""
    declared = declare(Topics())
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "ragstream",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "channels": {channel_id(topic): _channel(topic) for topic in declared},
        "operations": _operations(declared),
        "components": {
            "messages": {
                **{name: _message(name, examples[name]) for name in EVENT_TYPES},
                "DeadLetter": _dead_letter(),
            },
            "schemas": {
                **{name: {"$ref": f"./schemas/{name}.json"} for name in EVENT_TYPES},
                "CloudEventHeaders": _cloud_event_headers(),
                "DeadLetterHeaders": _dead_letter_headers(),
            },
        },
    }


def channel_id(topic: TopicDeclaration) -> str:
    """``answer-deltas.v1.dlt`` for a topic of the default prefix."""
    return topic.name.partition(".")[2]


def _channel(topic: TopicDeclaration) -> dict[str, Any]:
    message = "DeadLetter" if topic.dead_letter else topic.event
    config = topic.config()
    return {
        "address": topic.name,
        "description": topic.purpose,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "replicas": topic.replication,
                "topicConfiguration": {
                    "cleanup.policy": [config["cleanup.policy"]],
                    "retention.ms": topic.retention_ms,
                    "max.message.bytes": topic.max_bytes,
                    "message.timestamp.type": config["message.timestamp.type"],
                    "min.insync.replicas": int(config["min.insync.replicas"]),
                },
                "bindingVersion": _BINDING,
            }
        },
    }


def _operations(declared: Sequence[TopicDeclaration]) -> dict[str, Any]:
    """What the pipeline does: it receives what a stage reads, and sends what stages publish."""
    operations = {}
    for topic in declared:
        name = "".join(part.title() for part in channel_id(topic).split(".v1")[0].split("-"))
        if topic.dead_letter:
            name += "DeadLetters"
        reads = topic.group is not None or topic.event == "Cancel"
        if reads and not topic.dead_letter:
            operations[f"receive{name}"] = _operation("receive", topic)
        if topic.event not in (*_OPEN, "Cancel") or topic.dead_letter:
            operations[f"send{name}"] = _operation("send", topic)
    return operations


def _operation(action: str, topic: TopicDeclaration) -> dict[str, Any]:
    channel = channel_id(topic)
    message = "DeadLetter" if topic.dead_letter else topic.event
    operation: dict[str, Any] = {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": topic.purpose,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
    }
    if action == "receive" and topic.group is not None:
        group = {"type": "string", "enum": [topic.group]}
        operation["bindings"] = {"kafka": {"groupId": group, "bindingVersion": _BINDING}}
    return operation


def _message(event: str, example: Any) -> dict[str, Any]:
    cls = EVENT_TYPES[event]
    required = [] if event in _OPEN else ["ce_specversion", "ce_id", "ce_source", "ce_type"]
    return {
        "name": event,
        "title": event,
        "contentType": "application/json",
        "headers": {
            "allOf": [
                {"$ref": "#/components/schemas/CloudEventHeaders"},
                {
                    "type": "object",
                    "properties": {"ce_type": {"const": type_name(cls)}},
                    **({"required": required} if required else {}),
                },
            ]
        },
        "payload": {"$ref": f"#/components/schemas/{event}"},
        "bindings": {"kafka": {"key": _key(event), "bindingVersion": _BINDING}},
        "examples": [
            {"name": event, "headers": _example_headers(event, example), "payload": example}
        ],
    }


def _key(event: str) -> dict[str, Any]:
    if event in _OPEN:
        return {
            "type": "string",
            "description": "Anything; records of one key are taken in order. A murmur2 partitioner "
            "keeps a conversation together already here; it is keyed anew at the first stage.",
        }
    return {
        "type": "string",
        "pattern": "^[0-9a-f]{32}$",
        "description": "Hash of the tenant and the conversation, or of the tenant and the query "
        "where there is none; the same on every hop.",
    }


def _example_headers(event: str, example: Mapping[str, Any]) -> dict[str, str]:
    subject = example.get("query_id") or example.get("document_id")
    if subject is None and "query" in example:
        subject = example["query"]["query_id"]
    return {
        "content-type": "application/json",
        "ce_specversion": "1.0",
        "ce_id": event_id("example", event),
        "ce_source": SOURCE,
        "ce_type": type_name(EVENT_TYPES[event]),
        "ce_time": _EXAMPLE_TIME,
        **({"ce_subject": subject} if subject else {}),
        "ce_generation": "0",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }


def _cloud_event_headers() -> dict[str, Any]:
    def text(description: str, **rules: Any) -> dict[str, Any]:
        return {"type": "string", "description": description, **rules}

    return {
        "type": "object",
        "description": "CloudEvents attributes in binary mode, and what travels along. Headers "
        "that are not ours are kept on every hop.",
        "properties": {
            "content-type": text("Type of the value", const="application/json"),
            "ce_specversion": text("Version of CloudEvents", const="1.0"),
            "ce_id": text("The same for every copy of an event, another for every event"),
            "ce_source": text("Who made it; with ce_id the key for deduplication"),
            "ce_type": text("Type of the event"),
            "ce_time": text("RFC 3339", format="date-time"),
            "ce_subject": text("The query or the document that it is about"),
            "ce_generation": text("0 at first; each replay raises it", pattern="^[0-9]{1,6}$"),
            "traceparent": text("W3C trace context"),
            "tracestate": text("W3C trace context"),
        },
    }


def _dead_letter() -> dict[str, Any]:
    return {
        "name": "DeadLetter",
        "title": "DeadLetter",
        "description": "A record as it was read: key, value and headers unchanged, with the "
        "reason in further headers. A value too large even here is left out; its SHA-256 and "
        "its place stand for it.",
        "contentType": "application/octet-stream",
        "headers": {"$ref": "#/components/schemas/DeadLetterHeaders"},
        "payload": {"description": "Any bytes"},
        "bindings": {
            "kafka": {
                "key": {"type": "string", "description": "The key of the record"},
                "bindingVersion": _BINDING,
            }
        },
    }


def _dead_letter_headers() -> dict[str, Any]:
    facts = {
        "topic": "Topic it was read from",
        "partition": "Its partition",
        "offset": "Its offset",
        "stage": "Stage that could not process it",
        "exception.class.name": "Class of the error",
        "exception.message": "What was wrong",
        "exception.code": "The error's code, for machines",
    }
    prefix = "__connect.errors."
    return {
        "type": "object",
        "description": "Kafka Connect's dead-letter headers, beside the record's own.",
        "properties": {
            f"{prefix}{name}": {"type": "string", "description": text}
            for name, text in facts.items()
        },
        "required": [f"{prefix}{name}" for name in facts],
    }
