"""Errors of OpenAI-compatible endpoints."""

from __future__ import annotations

import socket

import pytest

from ragstream.adapters import openai
from ragstream.domain.errors import DependencyUnavailable


async def test_an_endpoint_that_is_not_there_is_named_without_its_password() -> None:
    with socket.socket() as closed:  # bound and not listening
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        client = openai.connect(f"http://user:secret@{place}/v1")
        with pytest.raises(DependencyUnavailable, match=f"llm: http://{place}: ") as caught:
            await openai.ping(client)
        await client.close()
    assert "secret" not in str(caught.value)
