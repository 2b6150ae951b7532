"""The program: how it lists its commands, and what it leaves to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bench.client.cli import bench
from tests.rows import every_row
from web.commands.main import SECTIONS, main
from web.commands.options.definitions import DEFINITIONS

LONG = "x" * 100_000
SHORT = 3000
"""Characters of an error with its usage."""

ROOT = Path(__file__).parents[4]
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
        ("web.serving.server", FOR_PEOPLE),  # structlog looks at rich where there is one
    ],
)
def test_what_only_people_need_is_not_imported(module: str, names: tuple[str, ...]) -> None:
    script = f"import sys, {module}; print([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield how a command and all below it are called; what a package adds has a program of its own."""
    yield path
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from commands(command.commands[name], *path, name)


@every_row("program, path", [(program, path) for program in (main, bench) for path in commands(program)])
def test_each_help_can_be_read(program: click.Command, path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(program, [*path, "--help"])
    assert shown.exit_code == 0
    assert "\\b" not in shown.output, "it is click's mark, written as it is"
    listed = shown.output.partition("Commands:")[2].splitlines()
    assert [line for line in listed if line.endswith("...")] == [], "it is cut short"
    lines = [line for line in shown.output.splitlines() if not line.lstrip().startswith("-")]  # flags may be long
    assert [line for line in lines if len(line) > 80] == []


@every_row("key", DEFINITIONS)
def test_a_long_value_is_no_long_error(key: str, tmp_path: Path) -> None:
    file = tmp_path / "cede.toml"
    for said in (f'"{LONG}"', f'["{LONG}"]', f'{{{LONG} = "{LONG}"}}', "9" * 4000):
        file.write_text(f"{key} = {said}")
        shown = CliRunner().invoke(main, ["config", "--config", str(file)])
        assert shown.exit_code == 0 or len(shown.output) < SHORT
    shown = CliRunner().invoke(main, ["config"], env={DEFINITIONS[key].variable: LONG})
    assert shown.exit_code == 0 or len(shown.output) < SHORT


@every_row(
    "arguments",
    [
        [LONG],
        ["serve", f"--{LONG}"],
        ["serve", LONG, "--model", f"y{LONG}"],
        ["config", "--config", LONG],
        ["doctor", "--json", f"no/{LONG}"],
        ["pull", LONG],
        ["rm", LONG],
        ["run", LONG, "--url", f"http://{LONG}"],
        ["chat", "--url", LONG],
        ["chat", "--api-key-file", LONG],
        ["top", "--once", "--url", f"http://{LONG}"],
        ["completion", LONG],
        ["keys", "remove", LONG, "--api-key-file", "pyproject.toml"],
        ["kv", "prune", "--kv-dir", "docs", "--older-than", LONG],
    ],
)
def test_a_long_word_is_no_long_error(arguments: list[str]) -> None:
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code in (1, 2)
    assert isinstance(shown.exception, SystemExit), "it is said, and no traceback"
    assert len(shown.output) < SHORT


def test_a_long_key_of_a_file_is_no_long_error(tmp_path: Path) -> None:
    file = tmp_path / "cede.toml"
    file.write_text(f"{LONG} = 1")
    assert len(CliRunner().invoke(main, ["config", "--config", str(file)]).output) < SHORT


def test_an_error_steers_no_terminal() -> None:
    shown = CliRunner().invoke(main, ["pull", "nothing\x1b[2J\rhere"]).output
    assert "\\x1b[2J\\rhere" in shown
    assert shown.replace("\n", "").isprintable()


CACHES = {"LRU_CACHE_CAPACITY": "128", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128"}
TOLD = {"GOMP_SPINCOUNT": "10000", "TOKENIZERS_PARALLELISM": "false"} | CACHES
SHOWING = f"""
import json, os, sys

class Showing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(json.dumps({{name: os.environ.get(name) for name in {list(TOLD)!r}}}), flush=True)
            os._exit(0)

sys.meta_path.insert(0, Showing())
"""
"""Shows what the environment says when torch is about to be imported, and ends there."""


def environment_of_torch(then: str, **given: str) -> dict[str, str]:
    """Return what it says where a program imports torch, if it said this at its start."""
    environment = {name: value for name, value in os.environ.items() if name not in TOLD} | given
    ended = subprocess.run(
        [sys.executable, "-c", SHOWING + then], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    shown: dict[str, str] = json.loads(ended.stdout.splitlines()[-1])
    return shown


@pytest.mark.parametrize("arguments", [["serve", "--port", "0"], ["worker", "--port", "0"], ["doctor"]])
def test_the_libraries_below_torch_are_told_what_to_keep_before_it_is_imported(arguments: list[str]) -> None:
    if arguments[0] == "worker" and find_spec("dynamo") is None:
        pytest.skip("the cluster's libraries are not installed")
    then = f"from web.commands.main import main; main({arguments!r})"
    assert environment_of_torch(then) == TOLD
    given = {"LRU_CACHE_CAPACITY": "1024", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "7"}
    assert environment_of_torch(then, **given) == TOLD | given


def test_so_they_are_by_a_benchmark_of_the_engine_whose_threads_spin_for_a_shorter_while() -> None:
    told = environment_of_torch("import bench.engine.models.open_models")
    assert told == TOLD | {"GOMP_SPINCOUNT": "1000"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
@pytest.mark.parametrize("arguments", [["config"], ["--help"], ["completion", "bash"]])
def test_an_output_that_is_full_is_a_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "web", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == "Error: No space left on device"
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_the_program_is_imported_ends_it_quietly() -> None:
    script = """
import sys
class CtrlC:
    def find_spec(self, name, *_):
        if name == "web.commands.serve":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from web.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_file_of_keys_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gone" / "keys"
    shown = CliRunner().invoke(main, ["keys", "add", "ann", "--api-key-file", str(file)])
    assert shown.output == f"Error: {file}: No such file or directory\n"
