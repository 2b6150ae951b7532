"""The engine is measured against a bare loop over the same model."""

from __future__ import annotations

from typing import cast

import pytest

from bench.engine.models.bare_model import BareModel
from bench.engine.models.open_models import open_model
from bench.engine.overhead import Bench, Pace, measure
from runtime.loading.served import ServedModel
from runtime.selftest.rates import seconds_per_step
from runtime.step.step import SegmentResult, StepResult
from tests.unit.bench.engine.small_models import DEPTH, ROOM, TOKENS


def test_time_lies_between_the_ends_of_steps() -> None:
    nothing: tuple[SegmentResult, ...] = ()
    results = [StepResult(nothing, at, at + 2, (at + 1,)) for at in (0.0, 3.0, 8.0)]
    assert seconds_per_step(results) == 4
    assert Pace.of(results) == Pace(step=4, gap=2)


@pytest.mark.parametrize("bare", [False, True])
async def test_the_engine_is_measured_against_the_loop(capsys: pytest.CaptureFixture[str], bare: bool) -> None:
    """Over the model as it is served, and as shapes of random weights are."""
    async with open_model(ROOM) as (executor, served):
        if bare:
            served = cast("ServedModel", BareModel(executor.model.config, ROOM.context))
        ratio = await measure(Bench(executor, served, DEPTH, TOKENS), 2, rounds=1)
    assert ratio > 0
    printed = capsys.readouterr().out
    assert printed.startswith("streams 2: loop ")
    assert float(printed.partition("Trio's tasks ")[2].split()[0]) < 1e6  # microseconds of Trio's for a token
