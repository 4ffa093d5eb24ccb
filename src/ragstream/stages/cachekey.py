"""Keys of the exact answer cache.

The key covers everything that may change the answer. Two users share an entry only when neither
the route nor a document is private, which is known when the answer is stored; so there are two
keys, the shared one and the user's own.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from ragstream.domain.events import Query, Turn

__all__ = ["is_relative_to_now", "normalise", "own_key", "shared_key"]

# Words that make an answer depend on the day it is asked. Any two may stand between "last" and
# "days": a question that is taken for one of today without need is answered anew each day.
_RELATIVE = re.compile(
    r"\b(?:now|today|tonight|yesterday|tomorrow|recent(?:ly)?|latest|newest|current(?:ly)?|"
    r"ago|so far|up[ -]to[ -]date|(?:this |(?:last|next|past|previous) (?:\S+ ){0,2})"
    r"(?:hour|day|week|weekend|month|quarter|year|morning|evening|night)s?)\b"
    "|今天|今日|今晚|昨天|昨日|明天|明日|最近|最新|近期|现在|現在|目前|当前|當前|刚刚|剛剛"
    "|[本这這上下]个?個?(?:周|週|星期|月|季度|年)|今年|去年|明年|今月|先月|来月|오늘|어제|내일|최근|지금"
)


def normalise(text: str) -> str:
    """NFKC, case folded, white space single. Punctuation stays: it can change a question."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def is_relative_to_now(text: str) -> bool:
    return _RELATIVE.search(normalise(text)) is not None


def shared_key(
    query: Query,
    *,
    history: Sequence[Turn],
    corpus_generation: int,
    routing_digest: str,
    model: str,
    prompt_version: str,
    asked_at: datetime,
) -> str:
    """SHA-256, hexadecimal, of all that the answer depends on but the user."""
    body = query.model_dump(mode="json", include={"tenant", "filters", "top_k", "route"})
    parts = {
        **body,
        "text": normalise(query.text),
        "history": [(turn.role, turn.text) for turn in history],
        "corpus_generation": corpus_generation,
        "routing": routing_digest,
        "model": model,
        "prompt_version": prompt_version,
        "day": asked_at.astimezone(UTC).date() if is_relative_to_now(query.text) else None,
    }
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def own_key(shared: str, user_id: str) -> str:
    """The user's own entry beside a shared one."""
    return hashlib.sha256(f"{shared}:{user_id}".encode()).hexdigest()
