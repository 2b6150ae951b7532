"""Rows that are dropped meet no expert any more: nothing is read for a cancelled request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.nn.layers.experts import MixtureOfExperts
from runtime.nn.model import Transformer
from runtime.step.step import Segment
from tests.models.checkpoints import FAMILIES
from tests.models.counting import count_experts
from tests.models.step_driver import open_transformer, random_tokens, run

LAYERS, PER_ROW = 3, 2


@pytest.fixture
def model(tmp_path: Path) -> Transformer:
    FAMILIES["mixtral"](tmp_path)
    return open_transformer(tmp_path)


def _watched(model: Transformer) -> list[list[tuple[int, int]]]:
    """For each layer a list that gets experts and their rows, as they are used."""
    calls = []
    for layer in model.weights.layers:
        assert isinstance(layer.mlp, MixtureOfExperts)
        calls.append(count_experts(layer.mlp))
    assert len(calls) == LAYERS
    return calls


def _used(calls: Sequence[list[tuple[int, int]]]) -> list[dict[int, int]]:
    """By layer, each expert with its rows; it begins anew after that."""
    used = [dict(layer) for layer in calls]
    for layer in calls:
        layer.clear()
    return used


@pytest.mark.parametrize("cancelled_in", range(LAYERS))
def test_after_a_drop_the_experts_are_those_of_the_rows_that_stay(model: Transformer, cancelled_in: int) -> None:
    """`cancelled_in` layers run with all rows: the mark is seen at the next layer's boundary."""
    calls = _watched(model)
    staying, leaving = Segment(0, 0, [7]), Segment(1, 0, random_tokens(20, below=256, seed=1))
    run(model, [staying])
    alone = _used(calls)
    run(model, [leaving])
    theirs = _used(calls)
    results = run(model, [staying, leaving], {cancelled_in: [leaving]}).segments
    together = _used(calls)
    assert [result.computed for result in results] == [True, False]
    assert [sum(layer.values()) for layer in together[:cancelled_in]] == [21 * PER_ROW] * cancelled_in
    assert together[cancelled_in:] == alone[cancelled_in:]
    assert all(theirs[layer].keys() - alone[layer].keys() for layer in range(LAYERS)), "or nothing would be shown"


def test_a_step_whose_rows_are_all_dropped_meets_no_expert(model: Transformer) -> None:
    calls = _watched(model)
    leaving = Segment(0, 0, [7, 8])
    run(model, [leaving], {1: [leaving]})
    assert [len(layer) > 0 for layer in _used(calls)] == [True, False, False]
