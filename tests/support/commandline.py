"""Running ``ragstream`` inside the test."""

from __future__ import annotations

import sys

import pytest

from ragstream.cli import main


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs ``ragstream`` with these arguments; its exit code."""
    monkeypatch.setattr(sys, "argv", ["ragstream", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code
