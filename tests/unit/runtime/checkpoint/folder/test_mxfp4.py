"""MXFP4 against what transformers makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from runtime.checkpoint.folder.mxfp4 import Mxfp4
from runtime.checkpoint.folder.packed import PackedMatrix
from runtime.checkpoint.folder.shards import read_shards
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.nn.weights import load_weights
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import Running, generate, open_transformer

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

NAME = "model.layers.0.mlp.experts.gate_up_proj"
EXPERTS, OUTPUTS, GROUPS = 3, 8, 2


def _parts(experts: int = EXPERTS, outputs: int = OUTPUTS, groups: int = GROUPS) -> tuple[Tensor, Tensor]:
    """Blocks and scales: every number there is, and exponents of every size."""
    generator = torch.Generator().manual_seed(1)
    blocks = torch.randint(0, 256, (experts, outputs, groups, 16), generator=generator, dtype=torch.uint8)
    return blocks, torch.randint(1, 250, (experts, outputs, groups), generator=generator, dtype=torch.uint8)


def _stored(folder: Path, **tensors: Tensor) -> PackedMatrix:
    save_file({f"{NAME}_{kind}": tensor for kind, tensor in tensors.items()}, folder / "model.safetensors")
    assembled = Mxfp4().assemble(read_shards(folder))
    assert list(assembled) == [f"{NAME}.weight"]
    found = assembled[f"{NAME}.weight"]
    assert isinstance(found, PackedMatrix)
    return found


def test_numbers_are_those_of_transformers(tmp_path: Path) -> None:
    """Which returns them inputs before outputs."""
    blocks, scales = _parts()
    stored = _stored(tmp_path, blocks=blocks, scales=scales)
    expected = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).mT
    assert stored.shape == expected.shape == (EXPERTS, OUTPUTS, 32 * GROUPS)
    assert torch.equal(stored.expand(), expected)
    assert stored.num_bytes == blocks.nbytes + scales.nbytes


@pytest.mark.parametrize("rows", [slice(3, 11), range(8, 16, 2), [5, 2, 20]])
def test_rows_can_be_read_by_themselves(rows: slice | range | list[int], tmp_path: Path) -> None:
    blocks, scales = _parts()
    stored = _stored(tmp_path, blocks=blocks, scales=scales)
    expected = stored.expand().flatten(0, 1)
    assert torch.equal(stored.expand(rows), expected[rows if isinstance(rows, slice) else list(rows)])


@pytest.mark.parametrize(
    ("blocks", "scales", "says"),
    [
        (_parts()[0], None, "gate_up_proj_scales is missing beside"),
        (_parts()[0], _parts()[1][:, :, :1], r"U8 \[3, 8, 2, 16\] and .* U8 \[3, 8, 1\], which do not make MXFP4"),
        (_parts()[0].int(), _parts()[1], "is I32 .* which do not make MXFP4"),
        (_parts()[0][0], _parts()[1][0], "which do not make MXFP4"),
        (_parts()[0][:, :0], _parts()[1][:, :0], "which do not make MXFP4"),
    ],
    ids=["no scales", "other scales", "whole numbers", "one expert", "empty"],
)
def test_what_is_not_of_this_form_is_refused(blocks: Tensor, scales: Tensor | None, says: str, tmp_path: Path) -> None:
    given = {"blocks": blocks} if scales is None else {"blocks": blocks, "scales": scales}
    with pytest.raises(CheckpointError, match=says):
        _stored(tmp_path, **{kind: tensor.contiguous() for kind, tensor in given.items()})


def _as_mxfp4(folder: Path) -> None:
    """Write the experts of a gpt-oss as MXFP4, and to `plain` in it what that stands for."""
    tensors = load_file(folder / "model.safetensors")
    plain = dict(tensors)
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = tensors.pop(name).shape
        blocks, scales = _parts(experts, outputs, inputs // 32)
        scales = 125 - scales % 4
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        plain[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    config = json.loads((folder / "config.json").read_text())
    quantization = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    (folder / "plain").mkdir()
    for place, weights, settings in (
        (folder / "plain", plain, config),
        (folder, tensors, {**config, "quantization_config": quantization}),
    ):
        save_file(weights, place / "model.safetensors")
        (place / "config.json").write_text(json.dumps(settings))


def test_a_model_whose_experts_are_in_mxfp4_is_that_of_its_numbers(tmp_path: Path) -> None:
    """Gate and up are alternate rows there, as everywhere with gpt-oss."""
    FAMILIES["gpt-oss"](tmp_path)
    _as_mxfp4(tmp_path)
    prompt = [11, 205, 7, 90]
    folders = (tmp_path, tmp_path / "plain")
    outputs = [generate(open_transformer(folder, slots=1), [Running(0, prompt)], 12)[0] for folder in folders]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) > 4


def test_experts_in_mxfp4_are_kept_like_any_other_weights(tmp_path: Path) -> None:
    FAMILIES["gpt-oss"](tmp_path)
    _as_mxfp4(tmp_path)
    folders = (tmp_path, tmp_path / "plain")
    mixed, plain = (load_weights(open_checkpoint(f), device="cpu", dtype=torch.bfloat16).nbytes for f in folders)
    assert mixed == plain
