"""Short forms of the scenarios that tell most; ``make chaos`` runs all of them at length."""

from __future__ import annotations

import pytest

from tests.chaos.runner import run, table
from tests.chaos.scenarios import SCENARIOS

pytestmark = pytest.mark.integration

SEED = 7


@pytest.mark.parametrize("name", ["after-output", "before-output", "postgres"])
async def test_short_form(name: str) -> None:
    result = await run(SCENARIOS[name], seed=SEED, short=True)
    print(table([result]))
    assert result.complaints == []
