"""The scripts of `cede completion`, run by the shells that they are for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.live.commands.terminal import Terminal
from tests.live.server import PATIENCE, command, environment

BASH = """
{script}
COMP_WORDS=(cede {words}) COMP_CWORD={place}
_cede_completion cede
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program `cede`, which the scripts call, and a model in cede's folder."""
    folder = tmp_path_factory.mktemp("home")
    program = folder / "bin" / "cede"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m web "$@"\n')
    program.chmod(0o755)
    return folder


def variables(home: Path) -> dict[str, str]:
    """Of a shell that finds that program."""
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return environment() | {"PATH": path, "HOME": str(home), "HF_HOME": str(home / "hf")}


@cache
def script(shell: str) -> str:
    """Return what is printed for a shell."""
    done = subprocess.run(
        command("completion", shell), capture_output=True, text=True, check=True, env=environment(), timeout=PATIENCE
    )
    return done.stdout


def in_bash(home: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in words)
    source = BASH.format(script=script("bash"), words=quoted, place=len(words))
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    done = subprocess.run(
        [bash, "--norc", "-c", source],
        capture_output=True,
        text=True,
        env=variables(home),
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ru"], ["run"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["serve", "--dtype", "b"], ["bfloat16"]),
        (["run", "--reasoning", ""], ["show", "hide"]),
        (["run", "--model", "emb"], ["embedded"]),
        (["pull", "smollm2-3"], ["smollm2-360m"]),
    ],
)
def test_bash_completes_commands_options_words_and_models(home: Path, words: list[str], offered: list[str]) -> None:
    found = in_bash(home, *words)
    assert found == offered


def test_bash_completes_flags(home: Path) -> None:
    assert {"--max-tokens", "--model", "--models-dir"} <= set(in_bash(home, "run", "--m"))


def test_zsh_completes(home: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("there is no zsh")
    (home / ".zshrc").write_text(f"autoload -Uz compinit; compinit -u\n{script('zsh')}\nPS1='ready> '\n")
    with Terminal("-i", program=zsh, extra=variables(home)) as terminal:
        terminal.wait_for("ready>")
        terminal.type("cede comple\t")
        terminal.wait_for("cede completion")
        terminal.type("\x15cede completion f\t")
        terminal.wait_for("cede completion fish")


def test_fish_completes(home: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("there is no fish")
    file = home / "cede.fish"
    file.write_text(script("fish"))
    ask = f"source {file}; complete --do-complete 'cede completion f'"
    done = subprocess.run(
        [fish, "--no-config", "-c", ask],
        capture_output=True,
        text=True,
        env=variables(home),
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.split() == ["fish"]
