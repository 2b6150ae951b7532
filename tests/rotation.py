"""Choice of what a run tries and others do not: a few mutants, scenarios of a few seeds, others with each commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def rotation(config: pytest.Config) -> str:
    """Return the text that chooses: that of `--rotation`, or the commit that is checked out."""
    chosen: str | None = config.getoption("--rotation")
    return chosen or current_commit()


def current_commit() -> str:
    """Return the commit that is checked out, or a fixed word where there is no git."""
    try:
        command = ["git", "rev-parse", "HEAD"]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return done.stdout.strip()
