"""The agents, installed once for all tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parent
PLACED = ("@anthropic-ai/claude-code", "opencode-ai")
"""Packages whose script puts the right one of several programs into its place; no other script is run."""

UNREACHED = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "NewConnectionError", "ConnectTimeoutError")
"""What npm and pip say when their registry does not answer."""


def install_from_npm(folder: Path) -> Path:
    """Install what package-lock.json has, or skip; return where the programs are."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no npm, with which the agents in JavaScript are installed")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name, folder)
    # `npm ci` refuses the lock of a package whose own parts for other systems were never published.
    _install([npm, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    subprocess.run([npm, "rebuild", *PLACED], cwd=folder, check=True, capture_output=True)
    return folder / "node_modules" / ".bin"


def install_from_pypi(folder: Path) -> Path:
    """Install what requirements.txt has, or skip; return where the programs are."""
    if sys.version_info >= (3, 13):
        pytest.skip("no aider runs on this Python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python, wanted = folder / "bin" / "python", SOURCES / "requirements.txt"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-compile"]
    _install([*pip, "-r", str(wanted)], folder)
    return folder / "bin"


def _install(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode and any(sign in done.stderr for sign in UNREACHED):
        pytest.skip(f"{Path(command[0]).name} found no way to the registry: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr[-2000:]
