"""Experts by their canonical names, out of every layout that files have them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from runtime.checkpoint.folder.experts import canonical_experts
from runtime.checkpoint.folder.shards import read_shards
from runtime.checkpoint.layer_config import MAX_EXPERTS
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.checkpoint.stored import StoredTensor

LAYER = "model.layers.0."
EXPERTS, HIDDEN, INNER = 3, 6, 4
MIXTRAL, GRANITE, QWEN, GPT_OSS = (f"{name}ForCausalLM" for name in ("Mixtral", "GraniteMoe", "Qwen3Moe", "GptOss"))

GATE, UP = torch.arange(2.0 * EXPERTS * INNER * HIDDEN).view(2, EXPERTS, INNER, HIDDEN)
DOWN = -torch.arange(1.0 * EXPERTS * HIDDEN * INNER).view(EXPERTS, HIDDEN, INNER)
GATE_BIAS, UP_BIAS = 0.5 + torch.arange(2.0 * EXPERTS * INNER).view(2, EXPERTS, INNER)
DOWN_BIAS = 0.25 + torch.arange(1.0 * EXPERTS * HIDDEN).view(EXPERTS, HIDDEN)
ROUTER = torch.full((EXPERTS, HIDDEN), 9.0)


def _read(folder: Path, architecture: str, tensors: dict[str, torch.Tensor]) -> dict[str, StoredTensor]:
    whole = {f"{LAYER}{name}": tensor.contiguous() for name, tensor in tensors.items()}
    save_file(whole, folder / "model.safetensors")
    return canonical_experts(read_shards(folder), architecture)


def _canonical(*, biases: bool = False) -> dict[str, torch.Tensor]:
    expected = {f"{LAYER}mlp.gate.weight": ROUTER}
    weights = {"gate_proj": GATE, "up_proj": UP, "down_proj": DOWN}
    for expert in range(EXPERTS):
        for projection, stack in weights.items():
            expected[f"{LAYER}mlp.experts.{expert}.{projection}.weight"] = stack[expert]
    if biases:
        for expert in range(EXPERTS):
            for projection, stack in {"gate_proj": GATE_BIAS, "up_proj": UP_BIAS, "down_proj": DOWN_BIAS}.items():
                expected[f"{LAYER}mlp.experts.{expert}.{projection}.bias"] = stack[expert]
    return expected


def _interleaved(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Rows of either in turn."""
    return torch.stack((first, second), dim=2).flatten(1, 2)


MIXTRAL_FILE = {
    "block_sparse_moe.gate.weight": ROUTER,
    **{f"block_sparse_moe.experts.{i}.w1.weight": GATE[i] for i in range(EXPERTS)},
    **{f"block_sparse_moe.experts.{i}.w2.weight": DOWN[i] for i in range(EXPERTS)},
    **{f"block_sparse_moe.experts.{i}.w3.weight": UP[i] for i in range(EXPERTS)},
}
GRANITE_FILE = {
    "block_sparse_moe.router.layer.weight": ROUTER,
    "block_sparse_moe.input_linear.weight": torch.cat((GATE, UP), dim=1),
    "block_sparse_moe.output_linear.weight": DOWN,
}
IN_MEMORY = {
    "mlp.gate.weight": ROUTER,
    "mlp.experts.gate_up_proj": torch.cat((GATE, UP), dim=1),
    "mlp.experts.down_proj": DOWN,
}
MLX_FILE = {
    "mlp.gate.weight": ROUTER,
    "mlp.switch_mlp.gate_proj.weight": GATE,
    "mlp.switch_mlp.up_proj.weight": UP,
    "mlp.switch_mlp.down_proj.weight": DOWN,
}
MLX_GPT_OSS_FILE = {
    "mlp.router.weight": ROUTER,
    **{f"mlp.experts.{name}.weight": stack for name, stack in zip(("gate_proj", "up_proj"), (GATE, UP), strict=True)},
    "mlp.experts.down_proj.weight": DOWN,
    "mlp.experts.gate_proj.bias": GATE_BIAS,
    "mlp.experts.up_proj.bias": UP_BIAS,
    "mlp.experts.down_proj.bias": DOWN_BIAS,
}
GPT_OSS_FILE = {
    "mlp.router.weight": ROUTER,
    "mlp.experts.gate_up_proj": _interleaved(GATE, UP).mT,
    "mlp.experts.gate_up_proj_bias": _interleaved(GATE_BIAS, UP_BIAS),
    "mlp.experts.down_proj": DOWN.mT,
    "mlp.experts.down_proj_bias": DOWN_BIAS,
}


@pytest.mark.parametrize(
    ("architecture", "file", "biases"),
    [
        (MIXTRAL, MIXTRAL_FILE, False),
        (MIXTRAL, IN_MEMORY, False),
        (GRANITE, GRANITE_FILE, False),
        (QWEN, MLX_FILE, False),
        (GPT_OSS, GPT_OSS_FILE, True),
        (GPT_OSS, MLX_GPT_OSS_FILE, True),
    ],
    ids=["mixtral", "in-memory", "granite", "mlx", "gpt-oss", "mlx-gpt-oss"],
)
def test_each_part_of_each_expert_is_a_tensor_of_its_own(
    architecture: str, file: dict[str, torch.Tensor], biases: bool, tmp_path: Path
) -> None:
    found = _read(tmp_path, architecture, file)
    expected = _canonical(biases=biases)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].shape == tensor.shape, name
        assert torch.equal(found[name].expand(), tensor), name
        if tensor.dim() > 1:
            assert torch.equal(found[name].expand(slice(1, 3)), tensor[1:3]), name
    assert sum(tensor.num_bytes for tensor in found.values()) == sum(tensor.nbytes for tensor in file.values())


def test_other_tensors_stay_as_they_are(tmp_path: Path) -> None:
    found = _read(tmp_path, QWEN, {"mlp.gate_proj.weight": GATE[0], "self_attn.sinks": ROUTER[0]})
    assert found == read_shards(tmp_path)


@pytest.mark.parametrize("shape", [(MAX_EXPERTS + 1, 2, 1), (5,), (0, 2, 3)])
def test_what_cannot_be_a_stack_keeps_its_name(shape: tuple[int, ...], tmp_path: Path) -> None:
    """And is then refused by it, as any tensor that belongs to no part."""
    assert list(_read(tmp_path, QWEN, {"mlp.switch_mlp.up_proj.weight": torch.empty(shape)})) == [
        f"{LAYER}mlp.switch_mlp.up_proj.weight"
    ]


def test_an_expert_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is .*experts\.0\.gate_proj\.weight, which .* holds too"):
        _read(tmp_path, MIXTRAL, {"mlp.experts.0.gate_proj.weight": GATE[0], "mlp.experts.0.w1.weight": UP[0]})
