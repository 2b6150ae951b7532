"""Families in the layouts of other tools: the same tokens as from the folder of the same weights in full.

Weights are small whole multiples of a power of two, so that four bits hold them exactly, however a tool turns, stacks
or multiplies them.
"""

from __future__ import annotations

import json
import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.nn.weights import load_weights
from tests.models.checkpoints import FAMILIES
from tests.models.mlx_models import as_mlx
from tests.models.packed_weights import awq_parts, compressed_parts, gptq_parts, mlx_float_parts, mlx_parts
from tests.models.step_driver import CPU, Running, generate, open_transformer, random_tokens
from tests.unit.runtime.checkpoint.folder.test_quantized_model import AWQ, COMPRESSED, GPTQ, GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Tensors = dict[str, torch.Tensor]

MIDDLE = 8
LATENT = {"qk_nope_head_dim": 32, "v_head_dim": 32, "kv_lora_rank": 64}

MLX_FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3.5": {},
    "qwen3.5-images": {},
    "qwen3.5-moe": {},
    "qwen3-next": {},
    "gemma4": {},
    "gemma4-experts": {},
    "gemma4-layer-inputs": {"hidden_size_per_layer_input": 32},
    "gemma4-images": {},
    "gemma3n": {"hidden_size_per_layer_input": 32, "laurel_rank": 32},
    "lfm2": {},
    "lfm2-moe": {},
    "granite-hybrid": {},
    "granite-hybrid-moe": {},
    "glm4-moe": {},
    "glm4-moe-lite": LATENT,
    "deepseek3": LATENT,
    "mistral4": LATENT,
    "kimi-linear": LATENT,
    "nemotron-h": {},
    "nemotron-h-moe": {},
    "nemotron-h-latent": {"moe_latent_size": 32},
    "falcon-h1": {},
    "falcon-h1-bias": {"tie_word_embeddings": True},
    "minimax-m2": {},
    "ministral3-images": {},
    "hunyuan": {},
    "hunyuan-moe": {},
    "laguna": {},
    "exaone4": {},
    "olmo-hybrid": {},
}
OTHERS: dict[str, dict[str, Any]] = {
    "qwen3.5": {},
    "qwen3.5-moe": {},
    "gemma4-experts": {},
    "lfm2": {},
    "lfm2-moe": {},
    "glm4-moe": {},
    "glm4-moe-lite": LATENT,
}
# What GPTQ's, AWQ's and compressed-tensors' files usually leave in full.
KEPT = re.compile(r"embed|lm_head|\.gate\.|router|shared_expert_gate|in_proj_[ab]\.|layers\.0\.self_attn")


# Of modes with a byte for each group: bits, the group, and the bits of 0 to 4.
E2M1, E4M3 = (0, 2, 4, 5, 6), (0, 0x38, 0x40, 0x44, 0x48)
MODES = {"mxfp4": (4, 32, E2M1), "mxfp8": (8, 32, E4M3), "nvfp4": (4, 16, E2M1)}


def on_grid(name: str, weight: torch.Tensor, largest: int) -> torch.Tensor:
    """Round a matrix, or a stack of them, to a few whole steps, some of them to below 0."""
    if weight.dim() < 2 or "conv" in name.rsplit(".", 2)[-2]:
        return weight
    step = 2.0 ** (weight.std() / 2).log2().round()
    return (weight / step).round().clamp(-largest, largest) * step


def codes_of(weight: torch.Tensor) -> tuple[list[list[int]], torch.Tensor]:
    """Codes, whose middle is 8, and scales `[out, groups]`: the least number of a row is its step."""
    rows = weight.reshape(-1, weight.shape[-1])
    steps = torch.where(rows == 0, torch.inf, rows.abs()).amin(-1, keepdim=True)
    steps = torch.where(steps.isinf(), 1.0, steps)
    codes = (rows / steps).round()
    torch.testing.assert_close(codes * steps, rows)
    return (codes.long() + MIDDLE).tolist(), steps.repeat(1, rows.shape[1] // GROUP)


def zeros_of(scales: torch.Tensor, zero: int = MIDDLE) -> list[list[int]]:
    return torch.full(scales.shape, zero).tolist()


def in_mlx(tensors: Tensors, settings: dict[str, Any], mode: str = "affine") -> Tensors:
    """Convert, and pack what `mlx.nn.quantize` does: rows of whole groups; routers in 8 bits, affine in all modes."""
    bits, group, numbers = MODES.get(mode, (4, GROUP, ()))
    quantization = settings["quantization"] = {"bits": bits, "group_size": group, "mode": mode}
    packed: Tensors = {}
    for name, weight in unpacked_mlx(tensors, settings).items():
        module = name.removesuffix(".weight")
        if weight.dim() < 2 or module == name or weight.shape[-1] % GROUP:
            packed[name] = weight
            continue
        codes, scales = codes_of(weight)
        if module.endswith(("mlp.gate", "mlp.router")):
            quantization[module] = {"bits": 8, "group_size": GROUP}
            parts = mlx_parts(codes, scales, -MIDDLE * scales, 8)
        elif numbers:
            parts = as_floats(codes, scales, mode)
        else:
            parts = mlx_parts(codes, scales, -MIDDLE * scales, bits)
        packed |= {f"{module}.{part}": tensor.view(*weight.shape[:-1], -1) for part, tensor in parts.items()}
    return packed


def as_floats(codes: list[list[int]], scales: torch.Tensor, mode: str) -> Tensors:
    """Write the same as numbers of a mode; scales are powers of two."""
    bits, group, numbers = MODES[mode]
    sign = 1 << bits - 1
    own = [[numbers[abs(code - MIDDLE)] + sign * (code < MIDDLE) for code in row] for row in codes]
    exponents = [[int(math.log2(scale)) for scale in row for _ in range(GROUP // group)] for row in scales.tolist()]
    bias, place = (127, 0) if group == GROUP else (7, 3)
    return mlx_float_parts(own, [[exponent + bias << place for exponent in row] for row in exponents], bits)


def unpacked_mlx(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    return as_mlx(tensors, {**settings, **settings.get("text_config", {}), "model_type": settings["model_type"]})


def gptq(codes: list[list[int]], scales: torch.Tensor) -> Tensors:
    return gptq_parts(codes, scales.half(), zeros_of(scales, MIDDLE - 1), 4)


def awq(codes: list[list[int]], scales: torch.Tensor) -> Tensors:
    return awq_parts(codes, scales.half(), zeros_of(scales))


def compressed(codes: list[list[int]], scales: torch.Tensor) -> Tensors:
    return compressed_parts(codes, scales.half(), zeros_of(scales), 4)


TOOLS: dict[str, tuple[Callable[[list[list[int]], torch.Tensor], Tensors], dict[str, Any]]] = {
    "gptq": (gptq, {**GPTQ["quantization_config"], "dynamic": {"-:.*self_attn.*": {}}}),
    "awq": (awq, {**AWQ["quantization_config"], "modules_to_not_convert": ["in_proj_a", "in_proj_b"]}),
    "compressed-tensors": (compressed, {**COMPRESSED["quantization_config"], "ignore": ["lm_head", "re:.*router"]}),
}


def write(
    tmp_path: Path,
    family: str,
    changed: Callable[[Tensors, dict[str, Any]], Tensors],
    largest: int = 7,
    **sizes: Any,  # noqa: ANN401
) -> Path:
    """Write a folder with weights on the grid, `plain`, and what `changed` makes of these and of its settings."""
    plain, other = tmp_path / "plain", tmp_path / "other"
    for folder in (plain, other):
        FAMILIES[family](folder, **sizes)
    full = load_file(plain / "model.safetensors")
    tensors = {name: on_grid(name, weight, largest) for name, weight in full.items()}
    settings = json.loads((plain / "config.json").read_text(encoding="utf-8"))
    save_file(tensors, plain / "model.safetensors")
    save_file(changed(tensors, settings), other / "model.safetensors")
    (other / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return other


def packed_by(tool: str) -> Callable[[Tensors, dict[str, Any]], Tensors]:
    """Return what packs each matrix of the layers by itself, of each expert, too, but for those that stay in full."""
    pack, quantization = TOOLS[tool]

    def packed(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
        settings["quantization_config"] = quantization
        found: Tensors = {}
        for name, weight in each_expert(tensors):
            module = name.removesuffix(".weight")
            if weight.dim() == 2 and not KEPT.search(name) and weight.shape[0] % 8 == weight.shape[1] % GROUP == 0:
                found |= {f"{module}.{part}": tensor for part, tensor in pack(*codes_of(weight)).items()}
            else:
                found[name] = weight
        return found

    return packed


def each_expert(tensors: Tensors) -> Iterator[tuple[str, torch.Tensor]]:
    for name, weight in tensors.items():
        before, stacked, part = name.partition(".experts.")
        if not stacked or weight.dim() < 3:
            yield name, weight
            continue
        for index, expert in enumerate(weight):
            names = ("gate_proj", "up_proj") if part == "gate_up_proj" else (part,)
            for own, half in zip(names, expert.chunk(len(names)), strict=True):
                yield f"{before}.experts.{index}.{own}.weight", half.contiguous()


def check_tensors(folder: Path, plain: Path, packed: int) -> None:
    """Compare numbers in full, and in their own codes where they have some: of at least so many."""
    found, expected = open_checkpoint(folder).tensors(), open_checkpoint(plain).tensors()
    assert found.keys() == expected.keys()
    coded = 0
    for name, stored in found.items():
        weight = expected[name].expand()
        assert stored.shape == weight.shape
        torch.testing.assert_close(stored.expand(), weight)
        is_bias = name.endswith("_proj.bias")  # of which nobody reads a part
        for rows in (slice(1, 3), [2, 0], range(0, 3, 2)) if weight.shape[0] > 2 and not is_bias else ():
            torch.testing.assert_close(stored.expand(rows), expected[name].expand(rows))
        if stored.code_format is not None:
            coded += 1
            torch.testing.assert_close(stored.codes().expand(), weight.view(-1, weight.shape[-1]))
    assert coded >= packed


def continued(folder: Path) -> list[list[int]]:
    """Return what two prompts go on with, in float32 and in full."""
    prompts = [random_tokens(count, below=256, seed=count) for count in (23, 9)]
    return generate(open_transformer(folder), [Running(slot, prompt) for slot, prompt in enumerate(prompts)], 16)


@pytest.mark.parametrize("family", MLX_FAMILIES)
def test_a_folder_that_mlx_lm_converted(family: str, tmp_path: Path) -> None:
    converted = write(tmp_path, family, in_mlx, **MLX_FAMILIES[family])
    check_tensors(converted, tmp_path / "plain", packed=12)
    assert continued(converted) == continued(tmp_path / "plain")


@pytest.mark.parametrize(("family", "mode"), [("gpt-oss", "mxfp4"), ("qwen3.5-moe", "nvfp4"), ("llama", "mxfp8")])
def test_a_folder_that_mlx_lm_converted_in_another_mode(family: str, mode: str, tmp_path: Path) -> None:
    converted = write(tmp_path, family, partial(in_mlx, mode=mode), largest=4)
    check_tensors(converted, tmp_path / "plain", packed=0 if mode == "mxfp8" else 12)
    assert continued(converted) == continued(tmp_path / "plain")


@pytest.mark.parametrize("family", ["qwen3.5-moe", "qwen3-next", "lfm2", "glm4-moe-lite", "falcon-h1"])
def test_a_folder_that_mlx_lm_converted_but_did_not_quantise(family: str, tmp_path: Path) -> None:
    check_tensors(write(tmp_path, family, unpacked_mlx), tmp_path / "plain", packed=0)


@pytest.mark.parametrize("family", OTHERS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_folder_whose_matrices_are_packed_one_by_one(tool: str, family: str, tmp_path: Path) -> None:
    packed = write(tmp_path, family, packed_by(tool), **OTHERS[family])
    check_tensors(packed, tmp_path / "plain", packed=8)
    assert continued(packed) == continued(tmp_path / "plain")


def test_a_module_that_predicts_ahead_is_left_out_of_a_converted_folder(tmp_path: Path) -> None:
    """Whether 1 was added to its norms is not known."""

    def with_module(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
        return {**unpacked_mlx(tensors, settings), "language_model.mtp.norm.weight": torch.ones(64)}

    check_tensors(write(tmp_path, "qwen3.5", with_module), tmp_path / "plain", packed=0)


def test_what_a_conversion_lost_is_refused(tmp_path: Path) -> None:
    def without_corrections(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
        found = unpacked_mlx(tensors, settings)
        return {name: tensor for name, tensor in found.items() if "e_score_correction_bias" not in name}

    def without_factors(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
        converted = unpacked_mlx(tensors, settings)
        del settings["key_multiplier"], settings["ssm_out_multiplier"]
        return converted

    ernie = write(tmp_path / "ernie", "ernie-moe", without_corrections)
    with pytest.raises(CheckpointError, match=r"gate\.e_score_correction_bias: is missing from the weights"):
        load_weights(open_checkpoint(ernie), device=CPU, dtype=torch.float32)
    falcon = write(tmp_path / "falcon", "falcon-h1", without_factors)
    with pytest.raises(CheckpointError, match="ssm_out_multiplier None is not a number above 0"):
        open_checkpoint(falcon).tensors()


@pytest.mark.parametrize(
    ("family", "added"),
    [
        ("glm4-moe-lite", "self_attn.kv_b_proj"),
        ("gemma4-experts", "experts.up_proj"),
        ("kimi-linear", "self_attn.q_conv1d"),
    ],
)
def test_the_same_part_in_both_forms_is_refused(family: str, added: str, tmp_path: Path) -> None:
    def with_both(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
        found = unpacked_mlx(tensors, settings)
        name = f"model.layers.0.{added}.weight"
        return found | {name: tensors.get(name, torch.ones(8, 64, 64)).clone()}

    folder = write(tmp_path, family, with_both)
    with pytest.raises(CheckpointError, match=r"belongs to no part of this architecture|holds too"):
        load_weights(open_checkpoint(folder), device=CPU, dtype=torch.float32)
