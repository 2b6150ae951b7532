"""Whole folders of other tools: the same tokens as from the folder of what they stand for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.weights import load_weights
from tests.models.checkpoints import FAMILIES
from tests.models.packed_weights import awq_parts, compressed_parts, gptq_parts, mlx_parts
from tests.models.step_driver import CPU, Running, generate, open_transformer, random_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Pack = Callable[[str, torch.Tensor], tuple[dict[str, torch.Tensor], torch.Tensor]]

GROUP = 32
MLX = {
    "quantization": {"bits": 4, "group_size": GROUP, "model.layers.1.mlp.down_proj": {"bits": 6, "group_size": GROUP}}
}
GPTQ = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False}}
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}}
WEIGHTS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP, "symmetric": False}
COMPRESSED = {
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": WEIGHTS}},
    }
}


def rounded(weight: torch.Tensor, bits: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scales (float16), whole zeros and what they stand for."""
    groups = weight.view(weight.shape[0], -1, GROUP)
    smallest, largest = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scales = ((largest - smallest) / (2**bits - 1)).clamp(min=1e-4).half()
    zeros = (-smallest / scales.float()).round().clamp(1, 2**bits - 1)
    codes = (groups / scales.float()[..., None] + zeros[..., None]).round().clamp(0, 2**bits - 1)
    expanded = (codes - zeros[..., None]) * scales.float()[..., None]
    return codes.view(weight.shape).long(), scales, zeros.long(), expanded.view(weight.shape)


def pack_mlx(name: str, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    bits = 6 if name == "model.layers.1.mlp.down_proj" else 4
    codes, scales, zeros, _ = rounded(weight, bits)
    biases = (-zeros * scales.float()).half()
    expanded = codes.view(*scales.shape, GROUP) * scales.float()[..., None] + biases.float()[..., None]
    return mlx_parts(codes.tolist(), scales, biases, bits), expanded.view(weight.shape)


def pack_gptq(name: str, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    codes, scales, zeros, expanded = rounded(weight)
    return gptq_parts(codes.tolist(), scales, (zeros - 1).tolist(), 4), expanded


def pack_awq(name: str, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    codes, scales, zeros, expanded = rounded(weight)
    return awq_parts(codes.tolist(), scales, zeros.tolist()), expanded


def pack_compressed(name: str, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    codes, scales, zeros, expanded = rounded(weight)
    return compressed_parts(codes.tolist(), scales, zeros.tolist(), 4), expanded


FORMATS: dict[str, tuple[Pack, Mapping[str, object]]] = {
    "mlx": (pack_mlx, MLX),
    "gptq": (pack_gptq, GPTQ),
    "awq": (pack_awq, AWQ),
    "compressed-tensors": (pack_compressed, COMPRESSED),
}


def write(tmp_path: Path, tool: str, family: str) -> tuple[Path, Path]:
    """A folder as the tool writes it, and one with the same weights in full; MLX quantises embeddings, too."""
    packed, plain = tmp_path / "packed", tmp_path / "plain"
    for folder in (packed, plain):
        FAMILIES[family](folder)
    pack, settings = FORMATS[tool]
    tensors: dict[str, torch.Tensor] = {}
    expanded: dict[str, torch.Tensor] = {}
    for name, weight in load_file(plain / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if weight.dim() == 2 and (tool == "mlx" or "layers" in name):
            parts, expanded[name] = pack(module, weight)
            tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
        else:
            tensors[name] = expanded[name] = weight
    save_file(expanded, plain / "model.safetensors")
    save_file(tensors, packed / "model.safetensors")
    config = json.loads((packed / "config.json").read_text(encoding="utf-8"))
    (packed / "config.json").write_text(json.dumps({**config, **settings}), encoding="utf-8")
    return packed, plain


def continued(folder: Path) -> list[list[int]]:
    """Return what two prompts go on with, in float32 and in full."""
    prompts = [random_tokens(count, below=256, seed=count) for count in (23, 9)]
    return generate(open_transformer(folder), [Running(slot, prompt) for slot, prompt in enumerate(prompts)], 32)


@pytest.mark.parametrize(
    ("tool", "family"),
    [("mlx", "qwen3-tied"), ("mlx", "llama-bias"), *((tool, "llama-bias") for tool in list(FORMATS)[1:])],
)
def test_a_quantised_folder_says_what_its_expanded_weights_say(tool: str, family: str, tmp_path: Path) -> None:
    packed, plain = write(tmp_path, tool, family)
    assert continued(packed) == continued(plain)

    auto = load_weights(
        open_checkpoint(packed),
        device=CPU,
        dtype=torch.float32,
        formats=choose_formats(Quantization.AUTO, CPU, torch.float32),
    )
    assert f"int4 by {GROUP}" in auto.nbytes_by_form
    assert ("int8" in auto.nbytes_by_form) == (tool == "mlx")  # the matrix of 6 bits
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    full = load_weights(open_checkpoint(plain), device=CPU, dtype=torch.float32)
    for mine, theirs in zip(auto.layers, full.layers, strict=True):
        assert mine.mlp is not None
        assert theirs.mlp is not None
        expected_rows = theirs.mlp(x)
        assert ((mine.mlp(x) - expected_rows).norm() / expected_rows.norm()).item() < 0.02


def test_a_form_that_is_not_read_is_refused_with_the_config(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": "bitsandbytes"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match="quant_method 'bitsandbytes' is not supported"):
        _ = open_checkpoint(tmp_path).config
