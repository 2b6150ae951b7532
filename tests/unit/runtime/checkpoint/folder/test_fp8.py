"""FP8 against what transformers makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight

from runtime.checkpoint.folder.fp8 import Fp8, Fp8Tensor
from runtime.checkpoint.folder.shards import read_shards
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.weights import load_weights
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import CPU, Running, generate, open_transformer
from tests.rows import every_row

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

MODULE = "model.layers.0.mlp.up_proj"
SHAPE, BLOCK = (10, 24), [4, 16]  # whose last blocks are smaller
GRID = (3, 2)
FP8 = torch.float8_e4m3fn


def _numbers(shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).mul_(90).to(FP8)


def _scales(shape: tuple[int, ...] = GRID) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(2)) + 0.01


def _stored(folder: Path, block: list[int] | None, **tensors: Tensor) -> Fp8Tensor:
    save_file({f"{MODULE}.{kind}": tensor for kind, tensor in tensors.items()}, folder / "model.safetensors")
    assembled = Fp8({"weight_block_size": block}).assemble(read_shards(folder))
    assert list(assembled) == [f"{MODULE}.weight"]
    found = assembled[f"{MODULE}.weight"]
    assert isinstance(found, Fp8Tensor)
    return found


@every_row(
    "block, shape, scales",
    [
        (BLOCK, SHAPE, _scales()),
        (BLOCK, SHAPE, _scales().bfloat16()),
        ([16, 32], SHAPE, _scales((1, 1))),
        (None, SHAPE, _scales(())),
        (None, SHAPE, _scales((1,))),
        (BLOCK, (3, *SHAPE), _scales((3, *GRID))),
        (None, (3, *SHAPE), _scales((3, 1, 1))),
        (None, (3, *SHAPE), _scales((3, 2, 1))),
    ],
)
def test_numbers_are_those_of_transformers(
    block: list[int] | None, shape: tuple[int, ...], scales: Tensor, tmp_path: Path
) -> None:
    numbers = _numbers(shape)
    stored = _stored(tmp_path, block, weight=numbers, weight_scale_inv=scales, activation_scale=torch.ones(()))
    assert stored.num_bytes == numbers.nbytes + scales.nbytes
    if block is None and scales.dim() > 2:  # of a stack it takes one number, or one for each output
        scales = scales.repeat_interleave(SHAPE[0] // scales.shape[1], dim=1)
    expected = _dequantize_fp8_weight(numbers, scales, block, torch.float32)
    assert stored.shape == shape
    assert torch.equal(stored.expand(), expected)
    rows = expected.flatten(0, -2)
    assert torch.equal(stored.expand(slice(3, 9)), rows[3:9])
    assert torch.equal(stored.expand([len(rows) - 1, 0, 5]), rows[[-1, 0, 5]])


@every_row(
    "tensors, says",
    [
        ({"weight_scale_inv": _scales()}, "up_proj.weight is missing beside"),
        ({"weight": _numbers(), "weight_scale_inv": _scales((2, 3))}, r"F32 \[2, 3\], which do not make FP8 in blocks"),
        ({"weight": _numbers().float(), "weight_scale_inv": _scales()}, r"is F32 \[10, 24\] .* do not make FP8"),
        ({"weight": _numbers((2, 2, 4, 16)), "weight_scale_inv": _scales((2, 2, 1, 1))}, "do not make FP8"),
        ({"weight": _numbers((0, 16)), "weight_scale_inv": _scales((0, 1))}, "do not make FP8"),
        ({"weight": _numbers(), "weight_scale_inv": _numbers(GRID)}, "do not make FP8"),
    ],
)
def test_what_is_not_of_this_form_is_refused(tensors: dict[str, Tensor], says: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=says):
        _stored(tmp_path, BLOCK, **tensors)


@every_row("block", ["128", [128], [0, 128], [1.5, 2]])
def test_blocks_that_are_none_are_refused(block: Any) -> None:  # noqa: ANN401
    with pytest.raises(CheckpointError, match="weight_block_size"):
        Fp8({"weight_block_size": block})


def test_numbers_without_a_scale_are_refused(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    _write(tmp_path, {"model.layers.1.mlp.up_proj.weight": _numbers((96, 64))}, [32, 32])
    with pytest.raises(CheckpointError, match=r"up_proj\.weight has numbers of the type F8_E4M3"):
        open_checkpoint(tmp_path).tensors()


def _write(folder: Path, changed: dict[str, Tensor], block: list[int] | None) -> None:
    path = folder / "model.safetensors"
    save_file({**load_file(path), **changed}, path)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": block}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    ("family", "block"), [("ministral3-images", None), ("deepseek3", [32, 16]), ("mistral4", None)]
)
def test_a_model_in_fp8_is_that_of_its_numbers(family: str, block: list[int] | None, tmp_path: Path) -> None:
    """As Ministral 3 is published, whose scales are one for a matrix, and as DeepSeek V3 is."""
    quantised, plain = tmp_path / "quantised", tmp_path / "plain"
    for folder in (quantised, plain):
        FAMILIES[family](folder)
    packed: dict[str, Tensor] = {}
    expanded: dict[str, Tensor] = {}
    for name, weight in load_file(plain / "model.safetensors").items():
        if name.endswith("_proj.weight") and weight.dim() == 2:
            grid = (
                () if block is None else tuple(-(-size // own) for size, own in zip(weight.shape, block, strict=True))
            )
            scales = _scales(grid) / 100
            numbers = (weight / _dequantize_fp8_weight(torch.ones_like(weight), scales, block, torch.float32)).to(FP8)
            packed |= {name: numbers, f"{name}_scale_inv": scales}
            expanded[name] = _dequantize_fp8_weight(numbers, scales, block, torch.float32)
    _write(quantised, packed, block)
    save_file({**load_file(plain / "model.safetensors"), **expanded}, plain / "model.safetensors")
    outputs = [
        generate(open_transformer(each, slots=1), [Running(0, [11, 205, 7])], 12)[0] for each in (quantised, plain)
    ]
    assert outputs[0] == outputs[1]
    kept = choose_formats(Quantization.AUTO, CPU, torch.float32)
    assert (
        "int8" in load_weights(open_checkpoint(quantised), device=CPU, dtype=torch.float32, formats=kept).nbytes_by_form
    )
    assert len(set(outputs[0])) > 4
