"""The modules of the chat that need no browser, under Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live.server import PATIENCE, ROOT

HERE = Path(__file__).parent
TESTS = sorted(path.name for path in HERE.glob("*.test.js"))


@pytest.mark.parametrize("name", TESTS)
def test_node_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node here")
    shutil.copytree(ROOT / "web" / "observability" / "page" / "site", tmp_path / "site")
    (tmp_path / "tests").mkdir()
    for path in HERE.glob("*.js"):
        shutil.copy(path, tmp_path / "tests")
    (tmp_path / "package.json").write_text('{"type": "module"}')  # a browser needs no such word, and Node does
    found = subprocess.run(
        [node, "--test", "--test-reporter=tap", f"tests/{name}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "# pass 0" not in found.stdout
