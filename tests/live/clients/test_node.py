"""Clients in JavaScript: OpenAI's own and the AI SDK, of the versions that node/package-lock.json pins."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.live.server import Server

SOURCES = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the clients, and return where."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("there is no npm, with which the clients in JavaScript are installed")
    folder = tmp_path_factory.mktemp("node") / "clients"
    shutil.copytree(SOURCES, folder)
    done = subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"npm ci found no way to the registry: {done.stderr[-200:]}")
    return folder


def test_answers_and_aborts(four_slots: Server, installed: Path) -> None:
    arguments = ["node", "clients.mjs", four_slots.url]
    done = subprocess.run(arguments, cwd=installed, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [said["client"] for said in seen] == ["openai", "aiSdk"]
    for said in seen:
        assert said["tokens"] == 3
        (receipt,) = four_slots.wait_ended(said["id"])
        assert receipt["reason"] == "client_disconnect"
    four_slots.wait_idle()
