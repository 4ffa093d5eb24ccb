"""Answers from a chat model, streamed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import openai
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk

from ragstream.adapters.openai.endpoint import as_parameters, translated_errors
from ragstream.domain.errors import GenerationFailed, TransientError
from ragstream.domain.events import Usage
from ragstream.domain.ports import GeneratedPiece, Prompt

__all__ = ["OpenAIGenerator"]


class OpenAIGenerator:
    """Streams answers from a chat model.

    ``temperature``: None leaves it to the model (some accept no other value).
    ``first_piece_timeout``: seconds until the first piece of text; the ``timeout`` of a call
    bounds the whole of it. ``count_usage``: ask for token counts at the end of the stream (some
    servers refuse the option). ``extra_body``: further request parameters, such as
    ``max_completion_tokens``.
    """

    def __init__(
        self,
        client: AsyncOpenAI,
        model: str,
        *,
        temperature: float | None = 0.2,
        first_piece_timeout: float = 20.0,
        count_usage: bool = True,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        self._client = client
        self._model = model
        self._temperature = temperature
        self._first_piece_timeout = first_piece_timeout
        self._count_usage = count_usage
        self._headers = headers
        self._extra_body = extra_body

    @property
    def model(self) -> str:
        return self._model

    async def generate(self, prompt: Prompt, *, timeout: float) -> AsyncIterator[GeneratedPiece]:
        now = asyncio.get_running_loop().time()
        end = now + timeout
        first = min(end, now + self._first_piece_timeout)
        with translated_errors("llm"):
            async with asyncio.timeout_at(first):
                stream = await self._open(prompt)
        async with stream:
            said_something = False
            finish_reason: str | None = None
            usage: Usage | None = None
            while True:
                chunk = await _next_chunk(stream, end if said_something else first)
                if chunk is None:
                    break
                if chunk.usage is not None:
                    usage = Usage(
                        input_tokens=chunk.usage.prompt_tokens,
                        output_tokens=chunk.usage.completion_tokens,
                    )
                for choice in (chunk.choices or [])[:1]:
                    finish_reason = choice.finish_reason or finish_reason
                    if choice.delta and choice.delta.content:
                        said_something = True
                        yield GeneratedPiece(text=choice.delta.content)
        if finish_reason == "content_filter":
            raise GenerationFailed("the content filter cut the answer off")
        if finish_reason is None:
            raise GenerationFailed("the model gave no complete choice", retryable=True)
        if not said_something:
            raise GenerationFailed("the model gave no text", retryable=True)
        yield GeneratedPiece(finish_reason=finish_reason, usage=usage)

    async def _open(self, prompt: Prompt) -> AsyncStream[ChatCompletionChunk]:
        return await self._client.chat.completions.create(
            model=self._model,
            messages=as_parameters(prompt.messages),
            stream=True,
            stream_options={"include_usage": True} if self._count_usage else openai.omit,
            temperature=openai.omit if self._temperature is None else self._temperature,
            extra_headers=self._headers,
            extra_body=self._extra_body,
        )


async def _next_chunk(
    stream: AsyncStream[ChatCompletionChunk], until: float
) -> ChatCompletionChunk | None:
    try:
        async with asyncio.timeout_at(until):
            return await anext(stream, None)
    except (TimeoutError, openai.APITimeoutError) as error:
        raise TransientError("llm: the answer did not come in time") from error
    except (openai.APIError, ValueError) as error:
        cause = error.__cause__ or error
        raise GenerationFailed(f"the stream broke off: {cause}", retryable=True) from error
