"""Description of a model from its files, whatever they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from runtime.checkpoint import open as opening
from runtime.store.held import HeldModel, ModelLocation
from tests.models.checkpoints import FAMILIES
from tests.models.gguf.files import write_gguf
from web.commands.models import describe


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    FAMILIES["llama"](tmp_path / "llama")
    return tmp_path / "llama"


def held(path: Path, problem: str | None = None) -> HeldModel:
    return HeldModel("a", ModelLocation.CEDE, path, 0, problem, None)


def test_a_folder_is_described_by_its_config_and_its_weights(llama: Path) -> None:
    described = describe(held(llama))
    assert (described.family, described.quantisation, described.fits) == ("LlamaForCausalLM", "F32", "yes")
    assert described.context is not None
    assert described.states is described.problem is None


def test_of_a_hybrid_it_is_said_what_its_states_take(tmp_path: Path) -> None:
    FAMILIES["lfm2"](tmp_path)
    assert describe(held(tmp_path)).states == "52 buffers of 1 KiB, 32 for snapshots"


@pytest.mark.parametrize(("name", "quantisation"), [("m-Q4_K_M.gguf", "Q4_K_M"), ("model.gguf", "Q8_0")])
def test_a_gguf_file_is_described_by_its_name_or_by_most_of_its_bytes(
    llama: Path, tmp_path: Path, name: str, quantisation: str
) -> None:
    described = describe(held(write_gguf(llama, tmp_path / name, matrices=GGMLQuantizationType.Q8_0)))
    assert (described.family, described.quantisation, described.problem) == ("LlamaForCausalLM", quantisation, None)


def test_what_its_place_knows_to_be_wrong_is_not_looked_into(tmp_path: Path) -> None:
    assert describe(held(tmp_path / "gone", "m.gguf is missing")).problem == "m.gguf is missing"


def test_a_file_that_is_none_is_described_by_what_is_the_matter(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"not one")
    problem = describe(held(path)).problem
    assert problem is not None
    assert "m.gguf" in problem


def test_an_error_that_nobody_foresaw_is_the_models_alone(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise ZeroDivisionError("what")

    monkeypatch.setattr(opening, "open_checkpoint", fail)
    assert describe(held(llama)).problem == "it cannot be read: ZeroDivisionError: what"
