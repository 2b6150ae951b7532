"""Whatever a body holds, each API's parser understands it or refuses it in the API's words."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from runtime.loading.served import ServedModel
from tests.hostile import parsers
from tests.hostile.bodies import WITH_BODY, draw_body, swapped
from tests.hostile.parsers import PARSERS, Verdicts, any_body, base_model, parse, served_model

BODIES = 400  # `python -m tests.hostile` draws more


def test_each_parser_is_of_a_declared_body() -> None:
    assert PARSERS.keys() <= WITH_BODY.keys()


@pytest.mark.parametrize("model", [served_model, base_model])
def test_drawn_bodies(model: object) -> None:
    verdicts = Verdicts()
    served: ServedModel = model()  # type: ignore[operator]
    verdicts.take(map(draw_body, range(BODIES)), served)
    assert verdicts.faults == []
    outcomes = {outcome for _, _, outcome in verdicts.counts}
    assert outcomes == {"understood", "refused, 400"}


@pytest.mark.parametrize("path", WITH_BODY)
def test_each_field_of_each_other_type(path: str) -> None:
    verdicts = Verdicts()
    verdicts.take(list(swapped(WITH_BODY[path]))[::9], served_model())
    assert verdicts.faults == []


@pytest.mark.parametrize("path", WITH_BODY)
def test_any_json(path: str) -> None:
    @settings(
        max_examples=25,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(any_body(path))
    def is_understood_or_refused(raw: bytes) -> None:
        parse(path, raw, served_model())

    is_understood_or_refused()


def test_another_exception_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(raw: bytes, model: ServedModel, most: int) -> object:
        raise KeyError("x")

    monkeypatch.setitem(parsers.PARSERS, "/tokenize", fails)
    verdicts = Verdicts()
    verdicts.take(map(draw_body, range(60)), served_model())
    assert verdicts.faults
    assert all("KeyError" in fault and "/tokenize" in fault for fault in verdicts.faults)
