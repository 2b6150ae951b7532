"""Findings of the self-test: what they tell, and what they leave out."""

from __future__ import annotations

import pytest
import torch

from runtime.selftest.findings import Finding, NotHere, Status, from_error, without_paths
from runtime.selftest.parity import Comparison
from web.commands.doctor import finding_lines


def test_a_finding_tells_what_nurseries_wrapped_and_where_it_was() -> None:
    try:
        Comparison(0.1)(torch.ones(1), torch.ones(2, 2))
    except IndexError as error:
        finding = from_error("a", "b", 1.0, ExceptionGroup("", [ExceptionGroup("", [error])]))
    assert finding.status is Status.FAIL
    assert finding.problem is not None
    assert finding.problem.startswith("IndexError: ")
    assert finding.where[-1].startswith("runtime.selftest.parity:")
    assert finding_lines(finding)[2].startswith("      at runtime.selftest.parity:")


def test_what_is_not_here_is_skipped() -> None:
    assert from_error("a", "b", 1.0, NotHere("why")) == Finding("a", "b", Status.SKIP, 1.0, problem="why")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("cannot read /home/ann/model/config.json: no", "cannot read (path): no"),
        ("'/Users/ann/m' is C:\\Users\\ann", "'(path)' is (path)"),
        ("in ~/models/x", "in (path)"),
        ("54 tokens/s and 1/2, at http://127.0.0.1:80/v1", "54 tokens/s and 1/2, at http://127.0.0.1:80/v1"),
    ],
)
def test_no_path_is_left(text: str, left: str) -> None:
    assert without_paths(text) == left
