"""The services that integration tests talk to, started once per session."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragstream.devstack.stack import Stack
from ragstream.devstack.state import Endpoints, endpoints_of


@contextmanager
def running_stack() -> Iterator[Endpoints]:
    """Endpoints of a development stack.

    Of the one that runs on the state folder ``$RAGSTREAM_TEST_STACK``, if that is set; else of a
    new one in a temporary folder, which ends with the context. It lives in a thread with a loop of
    its own, so that tests may use any loop.
    """
    if state := os.environ.get("RAGSTREAM_TEST_STACK"):
        yield endpoints_of(Path(state))
        return
    with reachable_folder() as folder:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="stack", daemon=True)
        thread.start()
        stack = Stack(folder / "state")
        try:
            yield asyncio.run_coroutine_threadsafe(stack.start(), loop).result()
        finally:
            asyncio.run_coroutine_threadsafe(stack.stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A temporary folder that other users may pass: as root, the database runs as one of them."""
    folder = Path(tempfile.mkdtemp(prefix="ragstream-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
