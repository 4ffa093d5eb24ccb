"""The acceptance vectors as tests, and the runner's own behaviour."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vectors.__main__ import check, main, same

FILE = Path(__file__).parents[1] / "vectors" / "vectors.json"


@pytest.mark.parametrize("case", json.loads(FILE.read_text("utf-8")), ids=lambda case: case["id"])
def test_vector(case: dict[str, object]) -> None:
    assert check(case) is None


def test_only_expected_keys_count() -> None:
    assert same({"a": 1}, {"a": 1.0, "b": 2})
    assert not same({"a": 1, "c": 3}, {"a": 1})
    assert not same([1, 2], [1, 2, 3])
    assert not same({"exact": True}, {"exact": 1})


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ({"stage": "murmur3_32", "input": "java", "expected": 1577783582}, 0),
        ({"stage": "murmur3_32", "input": "java", "expected": 1}, 1),
        ({"stage": "no_such_stage", "input": 1, "expected": 1}, 1),
        (
            {
                "stage": "rerank_parse",
                "input": {"response": '{"order":[0]}', "candidates": 1, "return_k": 1},
                "expected": {"reject": True},
            },
            1,
        ),
    ],
)
def test_runner_tells_by_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: dict[str, object], verdict: int
) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([{"id": "one", **case}]))
    assert main([str(file)]) == verdict
    assert capsys.readouterr().out.splitlines()[-1] == f"{1 - verdict} passed, {verdict} failed"
