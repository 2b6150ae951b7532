"""Three hundred mutated files: each is refused by name, or it is read; none crashes, hangs or takes all memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.runtime.checkpoint.hostile_files import FILES

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Return what became of each kind of file, in a process whose time and memory are bounded."""
    command = [sys.executable, "-m", "tests.unit.runtime.checkpoint.hostile_files", str(tmp_path_factory.mktemp("m"))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, dict[str, int]] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("kind", FILES)
def test_each_file_is_refused_or_read(kind: str, outcomes: dict[str, dict[str, int]]) -> None:
    found = outcomes[kind]
    assert found.keys() <= {"refused", "read"}
    assert sum(found.values()) == FILES[kind]
    assert found["refused"] > FILES[kind] // 2


def test_three_hundred_were_tried_and_some_were_still_right(outcomes: dict[str, dict[str, int]]) -> None:
    assert sum(FILES.values()) == 300
    assert any(found.get("read") for found in outcomes.values())
