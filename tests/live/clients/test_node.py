"""Clients in JavaScript: OpenAI's own, and the AI SDK over two APIs, of the versions in node/package-lock.json."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.pages import ADDRESS, fenced
from tests.live.server import PATIENCE

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
    done = subprocess.run(arguments, cwd=installed, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [said["client"] for said in seen] == ["openai", "aiSdk", "aiSdkAnthropic"]
    for said in seen:
        assert said["tokens"] == 3
        for request_id in said["ids"]:
            (receipt,) = four_slots.wait_ended(request_id)
            assert receipt["reason"] == "client_disconnect"
    assert [len(said["ids"]) for said in seen] == [1, 1, 2]
    called = seen[2]["calls"]
    assert [call["toolName"] for call in called] == ["paint", "paint"]
    assert all(call["input"]["colour"] in ("red", "blue") for call in called)
    assert json.loads(seen[2]["deltas"]) == called[1]["input"]
    assert seen[2]["finishReasons"] == ["tool-calls", "tool-calls"]
    four_slots.wait_idle()


def test_the_blocks_of_the_page_about_clients_run(four_slots: Server, installed: Path) -> None:
    for number, block in enumerate(fenced("use/clients.md", "js")):
        file = installed / f"{number}.mjs"
        file.write_text(block.replace(ADDRESS, four_slots.url))
        done = subprocess.run(["node", file], cwd=installed, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
