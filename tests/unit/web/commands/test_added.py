"""Commands that packages add: they are listed and run, and one that cannot be used says why."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from web.commands import added
from web.commands.main import main

ROOT = Path(__file__).parents[4]


@click.command()
def hello() -> None:
    """Greet whoever asks."""
    click.echo("hello")


NOT_A_COMMAND = "text"


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that adds a command, and some that fail to."""
    values = {
        "hello": f"{__name__}:hello",
        "text": f"{__name__}:NOT_A_COMMAND",
        "lost": f"{__name__}:nothing",
        "gone": "no_such_package:command",
        "serve": f"{__name__}:hello",
    }
    installed = EntryPoints(EntryPoint(name, value, added.GROUP) for name, value in values.items())
    monkeypatch.setattr(added, "entry_points", lambda **chosen: installed.select(**chosen))


@pytest.mark.usefixtures("packages")
def test_it_is_listed_and_run() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    assert re.search(r"hello +Greet whoever asks\.", shown.output)
    assert shown.output.count("  serve ") == 1
    assert CliRunner().invoke(main, ["hello"]).output == "hello\n"


@pytest.mark.usefixtures("packages")
def test_our_own_come_first() -> None:
    assert "Serve a model" in CliRunner().invoke(main, ["serve", "--help"]).output


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone", "no_such_package:command: No module named 'no_such_package'"),
        ("lost", "has no attribute 'nothing'"),
        ("text", "NOT_A_COMMAND is not a click command"),
    ],
)
def test_one_that_cannot_be_used_says_why(name: str, says: str) -> None:
    result = CliRunner().invoke(main, [name, "--any", "thing"])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: cede {name} cannot be used: ")
    assert says in result.output


@pytest.mark.parametrize(("version", "hint"), [("0.1.0", False), (None, True)])
def test_an_unknown_one_where_cede_is_not_installed(
    version: str | None, hint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.commands.main.installed_version", lambda: version)
    result = CliRunner().invoke(main, ["unheard-of"])
    assert result.exit_code == 2
    assert "No such command 'unheard-of'." in result.output
    assert ("pip install -e ." in result.output) == hint


def test_what_this_package_adds_are_commands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, value in project["entry-points"][added.GROUP].items():
        command = EntryPoint(name, value, added.GROUP).load()
        assert isinstance(command, click.Command)
        assert command.name == name
