"""Outputs of the embedded model and of a real one under a hundred real schemas, of which some are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.schemas.cases import Case, load_cases
from tests.live.schemas.run import FLAGS, Report, generate
from tests.real.conftest import smollm2

__all__ = ["smollm2"]


def run(folder: Path, *flags: str, proposer: str, generations: int, max_tokens: int) -> Report:
    with ForkedServer(folder, *FLAGS, "--speculate", proposer, *flags) as server:
        return generate(server, proposer, load_cases(), range(generations), max_tokens=max_tokens)


def test_there_are_a_hundred_schemas_of_four_sources() -> None:
    cases = load_cases()
    assert len({case.name for case in cases}) == 100
    assert {case.name.partition("/")[0] for case in cases} == {"functions", "files", "rest", "suite"}


def test_what_a_case_says_of_a_text() -> None:
    case = Case("it", {"type": "object", "properties": {"a": {"format": "date"}}, "required": ["a"]})
    assert case.fault_of('{"a": "2024-02-29"}') is None
    assert "required" in str(case.fault_of("{}"))
    assert "is not a 'date'" in str(case.fault_of('{"a": "2023-02-29"}'))
    assert "no JSON" in str(case.fault_of('{"a'))
    assert [case.may_go_on(text) for text in ("", '{"a": "20', '{"b"', "x")] == [True, True, False, False]
    assert case.keyword_in("no 'format' here, nor 'not'") == "format"
    assert case.keyword_in("nothing") is None


@pytest.mark.parametrize(
    ("text", "is_one"), [("0.3", True), ("0.305", False), ("1" + "0" * 400, True), ("1e500", True)]
)
def test_multiples_are_told_exactly(text: str, is_one: bool) -> None:
    assert (Case("cents", {"type": "number", "multipleOf": 0.01}).fault_of(text) is None) is is_one


def test_each_schema_is_held_to_or_refused_by_its_keyword(tmp_path: Path) -> None:
    report = run(tmp_path, proposer="ngram", generations=100, max_tokens=64)
    report.check()
    assert len(report.found.refused) < 25, report


@pytest.mark.real
def test_a_real_models_outputs_are_of_their_schemas(tmp_path: Path, smollm2: Path) -> None:
    run(tmp_path, "--model", str(smollm2), proposer="ngram", generations=20, max_tokens=48).check()
