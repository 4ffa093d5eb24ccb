"""The floor plan, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from ragstream.delivery.dispatcher import Window
from ragstream.domain.errors import ConfigurationError
from ragstream.domain.events import Answer, Job
from ragstream.domain.topics import Topics
from ragstream.pipeline import STAGES, Stages, build_units, chosen_stages, floor_plan
from ragstream.stages.route import Acceptance
from tests.unit.delivery.bench import Bench, route


async def work(job: Job) -> Job | Answer:
    return job


def plan() -> list:  # type: ignore[type-arg]
    everything = Stages(*(work for _ in STAGES))  # type: ignore[arg-type]
    return floor_plan(Topics("t"), everything, Acceptance(frozenset({"DOCS"})))


def test_each_topic_leads_to_the_next() -> None:
    steps = {step.stage: step for step in plan()}
    assert tuple(steps) == STAGES
    chain = ["route", "retrieve", "rerank", "answer", "history"]
    for before, after in pairwise(chain):
        assert steps[before].target == steps[after].source


def test_chosen_stages_are_in_order_and_known() -> None:
    assert chosen_stages(()) == STAGES
    assert chosen_stages(["answer", "route"]) == ("route", "answer")
    with pytest.raises(ConfigurationError, match="no such stage: reroute"):
        chosen_stages(["reroute"])


async def test_a_window_has_room_for_twice_what_may_work() -> None:
    services = Bench(route).services
    steps = [replace(step, concurrency=200) for step in plan()]
    units = build_units(steps, services, window=Window(records=256), only=["answer"])
    assert [(unit.stage, unit.group, unit.window.records) for unit in units] == [
        ("answer", "test.answer", 400)
    ]
