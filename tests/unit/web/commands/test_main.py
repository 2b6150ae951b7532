"""The program: how it lists its commands, and what it leaves to them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from web.commands.main import SECTIONS, main

FOR_PEOPLE = ("prompt_toolkit", "markdown_it", "web.commands.client.connection")
"""What only the commands for people need."""


def test_help_lists_each_command_in_its_section() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    assert [line.rstrip(":") for line in shown.splitlines() if line.rstrip(":") in SECTIONS] == list(SECTIONS)
    for section in SECTIONS.values():
        for command in section:
            (line,) = [line for line in shown.splitlines() if line.startswith(f"  {command.name} ")]
            assert line.endswith("."), "it is cut short"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("web.commands.main", ("trio", "httpx", "rich", "huggingface_hub.errors", *FOR_PEOPLE)),
        ("web.server", FOR_PEOPLE),  # structlog looks at rich where there is one
    ],
)
def test_what_only_people_need_is_not_imported(module: str, names: tuple[str, ...]) -> None:
    script = f"import sys, {module}; print([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
