"""Help for testing a pipeline without its outside services.

``OpenAIServer`` is a real HTTP server on this machine that speaks the OpenAI API::

    async with OpenAIServer() as server:
        server.reply("Paris. [1]", when="capital of France")
        client = connect(server.base_url)
        ...
        assert server.calls[-1].user.endswith("capital of France?")

The same server runs on its own with ``python -m ragstream.testing --port 8000``.
"""

from ragstream.testing.openai import OpenAIServer
from ragstream.testing.script import Call, When

__all__ = ["Call", "OpenAIServer", "When"]
