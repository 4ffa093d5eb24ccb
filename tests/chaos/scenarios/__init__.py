"""All scenarios by name, in the order in which they run."""

from __future__ import annotations

from tests.chaos.arena import Scenario
from tests.chaos.scenarios import kills, poison

__all__ = ["SCENARIOS"]

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for module in (kills, poison) for scenario in module.SCENARIOS
}
