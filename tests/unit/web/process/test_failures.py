"""Failures of a command, whatever they came out of."""

from __future__ import annotations

import click
import pytest

from runtime.errors import CedeError
from web.process.failures import said_in_a_line


@pytest.mark.parametrize(
    "error",
    [
        CedeError("the folder is taken"),
        ExceptionGroup("", [CedeError("the folder is taken")]),
        ExceptionGroup("", [ExceptionGroup("", [CedeError("the folder is taken"), CedeError("so is this")])]),
    ],
)
def test_what_cede_raises_is_a_line(error: Exception) -> None:
    with pytest.raises(click.ClickException) as raised, said_in_a_line():
        raise error
    assert str(raised.value) == "the folder is taken"
    assert raised.value.exit_code == 1
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("error", [ValueError("a fault"), click.UsageError("no such option")])
def test_anything_else_is_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, said_in_a_line():
        raise error
    assert raised.value is error


def test_a_fault_beside_it_is_raised() -> None:
    fault = ValueError("a fault")
    with pytest.raises(ExceptionGroup) as raised, said_in_a_line():
        raise ExceptionGroup("", [CedeError("the folder is taken"), fault])
    assert raised.group_contains(ValueError)
