"""What is known of a model before its weights are read, and that it still holds afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.config import EngineConfig
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.loading import load as loading
from runtime.loading.footprint import PER_SLOT, SNAPSHOTS
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import VOCAB_SIZE
from web.serving.server import ServerOptions, run_server

ROOT = Path(__file__).parents[4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FAMILIES["llama"](tmp_path)
    return tmp_path


def _edit(path: Path, **settings: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def _end_tokens(folder: Path) -> tuple[int, ...]:
    return describe_model(LoadOptions(folder), "test")[0].eos_token_ids


def test_the_tokenizer_s_end_token_is_one_too(folder: Path) -> None:
    """A fine-tune for chats often says so there only; its answers would go on with the next turn."""
    for name in ("config.json", "generation_config.json"):
        _edit(folder / name, eos_token_id=256)
    _edit(folder / "tokenizer_config.json", eos_token="<|im_end|>")
    assert _end_tokens(folder) == (256, 258)
    _edit(folder / "tokenizer_config.json", eos_token=None)
    assert _end_tokens(folder) == (256,)


def test_an_end_token_that_the_model_cannot_say_is_none(folder: Path) -> None:
    """`min_tokens` bans the end tokens by their index among the logits."""
    _edit(folder / "generation_config.json", eos_token_id=[256, VOCAB_SIZE, 258])
    assert _end_tokens(folder) == (256, 258)


async def test_a_model_that_is_replaced_while_it_is_loaded_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its KV would be kept under the name of the other."""
    other = folder / "other"
    other.mkdir()
    FAMILIES["linear-rope"](other)

    def load_and_replace(*args: Any) -> object:  # noqa: ANN401
        model = load_model(*args)
        (other / "model.safetensors").replace(folder / "model.safetensors")
        return model

    monkeypatch.setattr("actors.opening.load_model", load_and_replace)
    load = LoadOptions(folder, device="cpu", dtype="float32")
    options = ServerOptions(load, "test", EngineConfig(load.slots))
    with pytest.raises(CheckpointError, match="has changed"):
        await run_server(options, [], announce=lambda url: pytest.fail(url))


def test_recurrent_layers_have_buffers_for_their_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede")
    FAMILIES["lfm2"](tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    options = LoadOptions(tmp_path, slots=2, device="cpu", dtype="float32")
    model = load_model(options, checkpoint)
    assert model.buffers is not None
    assert model.buffers.count == 2 * (PER_SLOT + SNAPSHOTS)
    nbytes = model.buffers.bytes_per_buffer
    assert "2 of 3 layers are recurrent, their states: 26 buffers of 1 KiB, 16 for snapshots, 27 KiB" in caplog.text
    few = load_model(replace(options, state_memory=3 * nbytes + 1), checkpoint)
    assert few.buffers is not None
    assert few.buffers.count == 2 * PER_SLOT + 3
    monkeypatch.setattr(loading, "free_memory", lambda device: 10**6)
    assert model.context == 256 > load_model(replace(options, state_memory=900 * nbytes), checkpoint).context


def test_loading_does_not_import_pytorchs_compiler() -> None:
    """It takes seconds, and Triton along; PyTorch imports it for arithmetic on tensors that have no numbers."""
    script = (
        "import sys\n"
        "from runtime.loading.drafters import plan_drafter\n"
        "from runtime.loading.load import describe_model, load_model\n"
        "from runtime.loading.options import LoadOptions\n"
        "from runtime.store.resolve import resolve_model\n"
        "options = LoadOptions(resolve_model(None), device='cpu', dtype='float32', context=256)\n"
        "served, checkpoint = describe_model(options, 'embedded')\n"
        "plan = plan_drafter(options, checkpoint, served.tokenizer)\n"
        "plan.load(load_model(options, checkpoint, plan))\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
