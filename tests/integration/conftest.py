from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ragstream.testing import OpenAIServer


@pytest_asyncio.fixture(loop_scope="module")
async def model() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
def variables(model: OpenAIServer) -> dict[str, str]:
    """Of workers that start quickly and notice quickly."""
    return {
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_MODEL": "small",
        "RAGSTREAM_EMBEDDINGS__PROVIDER": "openai",
        "RAGSTREAM_DELIVERY__DRAIN": "1",
        "RAGSTREAM_DELIVERY__SESSION_TIMEOUT": "6",
        "RAGSTREAM_DELIVERY__RETRY_MAX": "0.5",
    }
