"""All scenarios by name, in the order in which they run."""

from __future__ import annotations

from tests.chaos.arena import Scenario
from tests.chaos.scenarios import crowd, kills, machine, model, outages, poison

__all__ = ["SCENARIOS"]

_MODULES = (kills, crowd, outages, model, machine, poison)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for module in _MODULES for scenario in module.SCENARIOS
}
