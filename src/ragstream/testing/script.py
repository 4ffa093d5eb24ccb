"""What the server was asked, and the rules by which it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Call", "Endpoint", "Reply", "Rule", "When"]

Endpoint = Literal["chat", "embeddings", "models"]


@dataclass(slots=True)
class Call:
    """One request that the server got. Header names are lower case.

    ``abandoned``: the caller went away before its reply was complete. ``over``: set when the
    server is through with the call, one way or the other.
    """

    endpoint: Endpoint
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    abandoned: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[str]:
        """What each message says, in order."""
        return self._said_by()

    @property
    def system(self) -> str:
        """The system messages."""
        return "\n".join(self._said_by("system", "developer"))

    @property
    def user(self) -> str:
        """The user's messages."""
        return "\n".join(self._said_by("user"))

    @property
    def text(self) -> str:
        """All messages, or all inputs of an embeddings request."""
        return "\n".join(self.inputs if self.endpoint == "embeddings" else self.messages)

    @property
    def inputs(self) -> list[str]:
        """Texts to embed."""
        inputs = self.body.get("input", [])
        return [inputs] if isinstance(inputs, str) else [str(text) for text in inputs]

    @property
    def wants_json(self) -> bool:
        kind = (self.body.get("response_format") or {}).get("type")
        return kind in ("json_object", "json_schema")

    def _said_by(self, *roles: str) -> list[str]:
        return [
            str(message.get("content") or "")
            for message in self.body.get("messages", [])
            if not roles or message.get("role") in roles
        ]


#: Which calls a rule is for: all, those whose text holds a string (any case), or a test.
When = str | Callable[[Call], bool] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server does with a call; ``OpenAIServer``'s methods say what the parts mean."""

    text: str | Callable[[Call], str] | None = None
    finish_reason: str = "stop"
    status: int = 200
    error: str = ""
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    choices: bool = True
    hang: bool = False
    break_after: int | None = None
    first_delay: float = 0.0
    piece_delay: float = 0.0


@dataclass(slots=True)
class Rule:
    """A reply and the calls that get it. ``left``: how often it still applies, None: always."""

    reply: Reply
    when: When
    endpoint: Endpoint
    left: int | None

    def matches(self, call: Call) -> bool:
        if self.endpoint != call.endpoint or self.left == 0:
            return False
        if isinstance(self.when, str):
            return self.when.lower() in call.text.lower()
        return self.when is None or self.when(call)
