"""The bench of what sequences share, with the smallest model that there is."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bench.engine.kv import sharing
from bench.engine.models.open_models import EMBEDDED


def test_each_round_says_what_is_held_and_shared_and_that_the_answers_are_those_of_a_request_alone() -> None:
    sizes = ["--sequences", "3", "--prefix", "130", "--own", "5", "--tokens", "2", "--deterministic", "off"]
    result = CliRunner().invoke(sharing.main, ["--model", EMBEDDED, *sizes])
    assert result.exit_code == 0, result.output
    alone, _, at_once, choices = result.output.splitlines()
    assert alone.startswith("alone: 192 positions held, 0 of them shared; without sharing 137; grown by ")
    assert at_once.startswith("at once: 320 positions held, 128 of them shared; without sharing 411; ")
    assert choices.startswith("choices of one prompt: 320 positions held, 128 of them shared; ")


def test_an_answer_that_differs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(range(100))

    async def measure(*_: object) -> list[list[int]]:
        return [[next(answers)]]

    monkeypatch.setattr(sharing, "measure", measure)
    result = CliRunner().invoke(sharing.main, [])
    assert "what was said is not what a request alone says" in result.output
