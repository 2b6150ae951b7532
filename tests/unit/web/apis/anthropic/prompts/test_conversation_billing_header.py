"""A line that changes with each request changes no token of the prompt."""

from __future__ import annotations

import pytest

from tests.unit.web.apis.anthropic.bodies import asked, text
from web.apis.anthropic.prompts.conversation import without_billing_header

FIRST = "x-anthropic-billing-header: cc_version=2.1.37.fbe; cc_entrypoint=cli; cch=8bd3d;"
SECOND = "x-anthropic-billing-header: cc_version=2.1.37.fbe; cc_entrypoint=cli; cch=0aa11;"


def prompt(system: object) -> tuple[int, ...]:
    return asked(system=system).request.prompts[0]


@pytest.mark.parametrize("line", [FIRST, SECOND])
def test_the_prompts_tokens_are_those_without_it(line: str) -> None:
    assert prompt([text(line), text("Be kind.")]) == prompt([text("Be kind.")])
    assert prompt(f"{line}\nBe kind.") == prompt("Be kind.")
    assert prompt([text(f"{line}\nBe kind."), text("Now.")]) == prompt("Be kind.\nNow.")
    assert prompt([text(line)]) == prompt(line) == prompt(None)


@pytest.mark.parametrize(
    "system",
    [
        [],
        [""],
        ["Be kind."],
        [f" {FIRST}"],
        [f"Be kind.\n{FIRST}"],
        ["Be kind.", FIRST],
        [FIRST.upper()],
        ["x-anthropic-billing: 1"],
    ],
)
def test_any_other_text_stays(system: list[str]) -> None:
    assert without_billing_header(list(system)) == system


def test_only_the_first_such_line_goes() -> None:
    assert without_billing_header([f"{FIRST}\n{SECOND}\nBe kind."]) == [f"{SECOND}\nBe kind."]


def test_the_log_says_so_where_it_says_everything(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "cede.web"):
        without_billing_header([FIRST])
    (record,) = caplog.records
    assert record.levelname == "DEBUG"
    assert "cch=8bd3d" in record.getMessage()
