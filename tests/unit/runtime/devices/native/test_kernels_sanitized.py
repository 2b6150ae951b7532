"""Reports of the sanitizers on the kernels, on one thread and on several; their results are the same bits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.runtime.devices.native.building import build


@pytest.mark.parametrize(
    "flags",
    [("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DTIMES=1"), ("-O1", "-fsanitize=thread")],
    ids=["address and undefined", "thread"],
)
def test_they_find_nothing(flags: tuple[str, ...]) -> None:
    program = build(Path(__file__).with_name("sanitized.cpp"), "-g1", *flags)
    ran = subprocess.run([program], capture_output=True, text=True, check=False)
    if ran.stdout.strip() == "not supported":
        pytest.skip("the kernels do not run on this processor")
    assert (ran.returncode, ran.stdout.strip()) == (0, "same"), ran.stdout + ran.stderr
