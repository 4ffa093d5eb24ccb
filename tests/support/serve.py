"""Serves a development stack as the command line does: ``python -m tests.support.serve STATE``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from ragstream.devstack.kafka import Broker
from ragstream.devstack.stack import Stack, serve


def say(message: str) -> None:
    print(message, flush=True)


if __name__ == "__main__":
    state, *broker = sys.argv[1:]
    stack = Stack(Path(state), broker=Broker(broker[0]) if broker else None, report=say)
    sys.exit(asyncio.run(serve(stack, say)))
