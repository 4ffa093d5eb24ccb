"""Run acceptance vectors: ``python -m tests.vectors FILE...``.

Each case's stage is mapped to the public function that implements it. Every mismatch is printed
with its id; the last line says how many passed and failed. Exit code 1 on any failure, an unknown
stage included.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from tests.vectors.stages import STAGES


def same(expected: Any, actual: Any) -> bool:
    """Equality on the keys that ``expected`` has; numbers to six places; null and "" are one.

    An object stands for a list of one object.
    """
    if isinstance(expected, dict):
        if isinstance(actual, list) and len(actual) == 1:
            actual = actual[0]
        return isinstance(actual, dict) and all(
            key in actual and same(value, actual[key]) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(map(same, expected, actual))
        )
    if expected in (None, "") and actual in (None, ""):
        return True
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return math.isclose(expected, actual, rel_tol=1e-6, abs_tol=1e-6)
    return bool(expected == actual)


def expects_error(expected: Any) -> bool:
    return isinstance(expected, dict) and bool(expected.keys() & {"reject", "raises"})


def check(case: dict[str, Any]) -> str | None:
    """What is wrong with a case, or None."""
    stage = STAGES.get(case["stage"])
    if stage is None:
        return f"unknown stage {case['stage']!r}"
    expected = case["expected"]
    try:
        actual = stage.run(case["input"])
    except stage.errors as error:
        return None if expects_error(expected) else f"raised {type(error).__name__}: {error}"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    if expects_error(expected):
        return f"expected an error, got {actual!r}"
    return None if same(expected, actual) else f"expected {expected!r}, got {actual!r}"


def main(files: list[str]) -> int:
    if not files:
        print("usage: python -m tests.vectors FILE...", file=sys.stderr)
        return 2
    passed = failed = 0
    for file in files:
        for case in json.loads(Path(file).read_text(encoding="utf-8")):
            problem = check(case)
            if problem is None:
                passed += 1
            else:
                failed += 1
                print(f"{case['id']}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
