"""``python -m ragstream.testing``: the OpenAI-compatible test server on its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from ragstream.testing import OpenAIServer


async def serve(port: int, dimensions: int) -> None:
    async with OpenAIServer(port=port, dimensions=dimensions) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ragstream.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dimensions", type=int, default=384, help="length of embeddings")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.port, arguments.dimensions))


if __name__ == "__main__":
    main()
