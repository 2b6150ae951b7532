"""Plans of faults in files: how they are read, and which servers take them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner

from runtime.testing.faults import (
    CancelAt,
    DeviceError,
    Fault,
    FaultPlan,
    SlowStep,
)
from web.commands.main import main
from web.testing.chaos import ChaosError, load_plan

WHOLE = """
[[fault]]
what = "device-error"
step = 20
layer = 3
every = 50

[[fault]]
what = "cancel"
actor = "decode"
checkpoint = 7

[[fault]]
what = "slow-step"
step = 2
seconds = 1
drafting = true
"""


def read(tmp_path: Path, content: str) -> FaultPlan:
    path = tmp_path / "plan.toml"
    path.write_text(content)
    return load_plan(path)


def test_a_plan_from_a_file(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE) == FaultPlan(
        (
            DeviceError(step=20, layer=3, every=50),
            CancelAt(actor="decode", checkpoint=7),
            SlowStep(step=2, seconds=1.0, drafting=True),
        )
    )


@pytest.mark.parametrize("kind", get_args(Fault))
def test_every_kind_can_be_read_from_a_file(kind: type[Any], tmp_path: Path) -> None:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values = {"actor": '"queue"', "seconds": "0.5", "what": f'"{fields["what"].default}"'}
    required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    lines = [f"{name} = {values.get(name, '3')}" for name in [*required, "what"]]
    (fault,) = read(tmp_path, "[[fault]]\n" + "\n".join(lines)).fault
    assert type(fault) is kind
    assert fault.first == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[[fault]]\nwhat = "earthquake"', "fault 1: .*'earthquake'.*'device-error'"),
        ('[[fault]]\nwhat = "device-error"', "fault 1, step: it is missing"),
        ('[[fault]]\nwhat = "device-error"\nstep = 0', "fault 1: (?!Value error).*at least 1"),
        ('[[fault]]\nwhat = "device-error"\nstep = "soon"', "fault 1, step: it should be a valid integer$"),
        ('[[fault]]\nwhat = "device-error"\nstep = 1\nlyer = 2', "fault 1, lyer: this fault has no such key"),
        ('[[fault]]\nwhat = "cancel"\nactor = "me"\ncheckpoint = 1', "fault 1, actor: .*'queue'"),
        (WHOLE + "[[fault]]\nstep = 1", "fault 4: .*'what'"),
        ("fault = 3", "fault: .*list"),
        ("[[faults]]\nstep = 1", "nothing like faults"),
        ("what?", "plan.toml: "),
    ],
)
def test_a_plan_that_is_none(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ChaosError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.org", ""])
def test_only_loopback_fails_as_planned(host: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(WHOLE)
    answer = CliRunner().invoke(main, ["serve", "--chaos", str(path), "--host", host])
    assert answer.exit_code == 1
    assert "loopback only" in answer.output
