"""The answer prompt: system, documents, conversation, question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstream.domain.events import Turn
from ragstream.domain.evidence import Document, SearchMode
from ragstream.domain.ports import ChatMessage, Prompt, TokenCounter
from ragstream.prompting import quality
from ragstream.prompting.context import NOTICE, Fitted, Priority, Segment, fit
from ragstream.prompting.prompts import load

__all__ = ["assemble", "document_block", "messages", "prompt_version", "system_prompt"]

# What nobody but us may say as it stands: our delimiters and our numbering. A model reads over
# characters that can't be seen, so they do not hide either.
_UNSEEN = "\\u00ad\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff"


def _hidden(word: str) -> str:
    return f"[{_UNSEEN}]*".join(word)


_DELIMITER = re.compile(
    rf"<(?=[\s/{_UNSEEN}]*(?:{_hidden('document')}|{_hidden('context')})\b)", re.IGNORECASE
)
_NUMBERING = re.compile(
    rf"\[([\s{_UNSEEN}]*{_hidden('CTX')}(?![a-z])[^\[\]\n]{{0,20}})(\]?)", re.IGNORECASE
)
_MESSAGE_TOKENS = 4  # what a chat format adds to each message


def prompt_version() -> str:
    """Version of everything that makes up the answer prompt but the data."""
    return "+".join(load(name).version for name in ("answer", "low_quality", "general_knowledge"))


def system_prompt(documents: Sequence[Document], mode: SearchMode = SearchMode.HYBRID) -> str:
    """Instructions, and a note on how good the evidence is."""
    note = quality.note([document.text for document in documents], mode)
    parts = [load("answer").text, f"SEARCH CONTEXT: {note}"]
    if not documents:
        parts.append(load("general_knowledge").text)
    elif quality.is_low(note):
        parts.append(load("low_quality").text)
    return "\n\n".join(parts)


def document_block(number: int, document: Document) -> str:
    """``[CTX n] url``, what is known of the document, and its text between delimiters that the
    text can't close."""
    lines = [f"[CTX {number}] {_line(document.metadata.url)}".rstrip()]
    if document.metadata.title:
        lines.append(f"Title: {_line(document.metadata.title)}")
    if document.metadata.headings:
        lines.append(f"Section: {_line(' > '.join(document.metadata.headings))}")
    if document.metadata.published_at:
        lines.append(f"Published: {document.metadata.published_at:%Y-%m-%d}")
    if (relation := document.version) is not None:
        requested = ", ".join(relation.requested)
        nearest = "" if relation.exact else " (nearest release there is)"
        lines.append(
            f"Release: {_line(relation.product)} requested {_line(requested)}, "
            f"evidence {_line(relation.evidence)}{nearest}"
        )
    elif document.metadata.doc_version:
        lines.append(f"Release: {_line(document.metadata.doc_version)}")
    return "\n".join([*lines, "<document>", _harmless(document.text), "</document>"])


def messages(
    question: str,
    documents: Sequence[Document] = (),
    turns: Sequence[Turn] = (),
    *,
    mode: SearchMode = SearchMode.HYBRID,
    truncated: bool = False,
) -> tuple[ChatMessage, ...]:
    """The prompt for a chat model, in the order system, documents, conversation, question.

    Neither a document nor a turn nor the question can open or close the context, or number a
    document: each may quote what somebody else wrote.
    Neighbours of one role are joined, since many models want roles to alternate.
    """
    said = [ChatMessage("system", system_prompt(documents, mode))]
    if documents:
        blocks = [document_block(number, d) for number, d in enumerate(documents, start=1)]
        opening = f"{NOTICE}\n\n<context>" if truncated else "<context>"
        said.append(ChatMessage("user", "\n\n".join([opening, *blocks, "</context>"])))
    said += [ChatMessage(turn.role.value, _harmless(turn.text)) for turn in turns]
    said.append(ChatMessage("user", _harmless(question)))
    joined: list[ChatMessage] = []
    for message in said:
        if joined and joined[-1].role == message.role:
            both = f"{joined.pop().content}\n\n{message.content}"
            message = ChatMessage(message.role, both)
        joined.append(message)
    return tuple(joined)


def assemble(
    question: str,
    documents: Sequence[Document],
    turns: Sequence[Turn],
    *,
    counter: TokenCounter,
    budget: int,
    mode: SearchMode = SearchMode.HYBRID,
) -> tuple[Prompt, Fitted[Document, Turn]]:
    """Fit documents and turns into ``budget`` tokens and render what is kept.

    Raises ``ContextDoesNotFit`` when no authoritative document fits.
    """
    # Which note is shown depends on what fits, so room is reserved for the longest.
    longest = (
        f"{system_prompt(documents, SearchMode.SPARSE_ONLY)}\n\n{load('general_knowledge').text}"
    )
    framing = counter.count(f"{NOTICE}\n\n<context>\n\n</context>") + 3 * _MESSAGE_TOKENS
    fitted = fit(
        counter.count(longest) + framing,
        counter.count(_harmless(question)),
        [
            Segment(
                document,
                counter.count(document_block(len(documents), document)) + 1,
                Priority.HIGH if document.metadata.authoritative else Priority.LOW,
            )
            for document in documents
        ],
        [
            Segment(turn, counter.count(_harmless(turn.text)) + _MESSAGE_TOKENS, Priority.MEDIUM)
            for turn in turns
        ],
        budget,
    )
    rendered = messages(
        question, fitted.documents, fitted.turns, mode=mode, truncated=fitted.truncated
    )
    tokens = sum(counter.count(message.content) + _MESSAGE_TOKENS for message in rendered)
    prompt = Prompt(question, rendered, fitted.documents, prompt_version(), tokens)
    return prompt, fitted


def _line(text: str | None) -> str:
    return _harmless(" ".join((text or "").split()))


def _harmless(text: str) -> str:
    numbered = _NUMBERING.sub(lambda found: f"({found[1]}{')' if found[2] else ''}", text)
    return _DELIMITER.sub("&lt;", numbered)
