"""The client of an OpenAI-compatible endpoint, and what its failures mean to us."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import cache
from typing import cast

import httpx2
import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from ragstream.domain.errors import (
    ConfigurationError,
    ContextDoesNotFit,
    DependencyUnavailable,
    GenerationFailed,
    PermanentError,
    RagstreamError,
    TransientError,
)
from ragstream.domain.ports import ChatMessage

__all__ = ["as_parameters", "complete_json", "connect", "ping", "translated_errors"]

_OUTAGE = frozenset({502, 503, 504, 529})
_TRY_AGAIN = frozenset({408, 409, 429})
_TOO_LONG = ("context_length_exceeded", "maximum context length", "context window")


def connect(
    base_url: str,
    api_key: str | None = None,
    *,
    connect_timeout: float = 2.0,
    read_timeout: float = 60.0,
    headers: Mapping[str, str] | None = None,
) -> AsyncOpenAI:
    """The client for one base URL, such as ``http://127.0.0.1:8000/v1``.

    Without an ``api_key`` no ``Authorization`` header is sent (and none is taken from the
    environment). ``connect_timeout`` and ``read_timeout``: seconds to open a connection, and
    between two reads.
    """
    hooks = [] if api_key else [_drop_authorization]
    return AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or "none",
        max_retries=0,
        timeout=httpx2.Timeout(read_timeout, connect=connect_timeout),
        default_headers=headers,
        http_client=openai.DefaultAsyncHttpxClient(
            verify=_trusted(), event_hooks={"request": hooks}
        ),
    )


async def _drop_authorization(request: httpx2.Request) -> None:
    """The client insists on a key; an endpoint without one should not be sent any."""
    request.headers.pop("Authorization", None)


@cache
def _trusted() -> ssl.SSLContext:
    """The usual certificate authorities; to load them takes a tenth of a second."""
    return httpx2.create_ssl_context()


async def ping(client: AsyncOpenAI, *, timeout: float = 2.0) -> None:
    """Return when the endpoint answers; raise ``DependencyUnavailable`` when it does not.

    A server that has no list of models is up all the same.
    """
    try:
        with translated_errors("llm"):
            async with asyncio.timeout(timeout):
                await client.models.list()
    except PermanentError as error:
        if not isinstance(error.__cause__, openai.NotFoundError):
            raise
    except TransientError as error:
        if isinstance(error, DependencyUnavailable):
            raise
        raise DependencyUnavailable("llm", str(error), retry_after=error.retry_after) from error


async def first_model(client: AsyncOpenAI, *, timeout: float = 5.0) -> str:
    """Name of the first model that the endpoint lists; many local servers have just one.

    Raises ``ConfigurationError`` when it lists none, ``DependencyUnavailable`` when it is down.
    """
    try:
        with translated_errors("llm"):
            async with asyncio.timeout(timeout):
                listed = await client.models.list()
    except PermanentError as error:
        raise ConfigurationError(f"OPENAI_MODEL is not set, and {error}") from error
    if not listed.data:
        raise ConfigurationError("OPENAI_MODEL is not set, and the endpoint lists no model")
    return listed.data[0].id


@contextmanager
def translated_errors(dependency: str) -> Iterator[None]:
    """Turn the client's errors into ours; ``dependency`` names what is down if it is."""
    try:
        yield
    except TimeoutError as error:
        raise TransientError(f"{dependency}: no reply in time") from error
    except openai.APIStatusError as error:
        raise _status_error(dependency, error) from error
    except openai.APITimeoutError as error:
        if isinstance(error.__cause__, httpx2.ConnectTimeout):
            reason = f"no connection to {_place(error)} in time"
            raise DependencyUnavailable(dependency, reason) from error
        raise TransientError(f"{dependency}: no reply in time") from error
    except openai.APIConnectionError as error:
        cause = error.__cause__ or error
        reason = f"{_place(error)}: {str(cause) or type(cause).__name__}"
        raise DependencyUnavailable(dependency, reason) from error
    except (openai.APIError, ValueError) as error:
        raise TransientError(f"{dependency}: the reply is not valid: {error}") from error


def _place(error: openai.APIConnectionError) -> str:
    """Where the request went; nothing of a password that the address may hold."""
    url = error.request.url
    return f"{url.scheme}://{url.netloc.decode()}"


def _status_error(dependency: str, error: openai.APIStatusError) -> RagstreamError:
    status = error.status_code
    retry_after = _retry_after(error.response.headers)
    message = f"status {status}: {error.message}"
    if status in _OUTAGE or error.code == "insufficient_quota":
        return DependencyUnavailable(dependency, message, retry_after=retry_after)
    if status in _TRY_AGAIN or status >= 500:
        return TransientError(f"{dependency}: {message}", retry_after=retry_after)
    told = f"{error.code} {error.message}"
    if status in (400, 413) and any(sign in told for sign in _TOO_LONG):
        return ContextDoesNotFit(f"{dependency}: {message}")
    if error.code == "content_filter":
        return GenerationFailed("the content filter refused the prompt")
    return PermanentError(f"{dependency}: {message}")


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds to wait (RFC 9110, 10.2.3: a number of seconds or an HTTP date), or None."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


async def complete_json(
    client: AsyncOpenAI,
    model: str,
    messages: Sequence[ChatMessage],
    *,
    timeout: float,
    headers: Mapping[str, str] | None = None,
) -> str:
    """The text of a reply in JSON mode at temperature 0. ``timeout``: seconds, for all of it."""
    with translated_errors("llm"):
        async with asyncio.timeout(timeout):
            completion = await client.chat.completions.create(
                model=model,
                messages=as_parameters(messages),
                temperature=0.0,
                response_format={"type": "json_object"},
                extra_headers=headers,
            )
    if not completion.choices:
        raise GenerationFailed("the model gave no choice", retryable=True)
    choice = completion.choices[0]
    if choice.finish_reason == "content_filter":
        raise GenerationFailed("the content filter refused the prompt")
    return (choice.message.content if choice.message else None) or ""


def as_parameters(messages: Iterable[ChatMessage]) -> list[ChatCompletionMessageParam]:
    return [
        cast("ChatCompletionMessageParam", {"role": message.role, "content": message.content})
        for message in messages
    ]
