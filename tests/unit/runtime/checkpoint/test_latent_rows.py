"""Rows that are rotated, brought from pairs of neighbours to the two halves that all families here have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from runtime.checkpoint.folder.shards import read_shard
from runtime.checkpoint.latent_rows import order_rotated_rows
from runtime.checkpoint.layer_config import LatentConfig

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.checkpoint.stored import StoredTensor

LATENT = LatentConfig(None, rank=3, plain_dim=2, rope_dim=6, value_dim=4, scale=1.0, interleaved=True)
ATTENTION = "model.layers.0.self_attn"


@pytest.fixture
def found(tmp_path: Path) -> dict[str, StoredTensor]:
    """Two heads' queries, and the key that they share; each row has its number in it."""
    sizes = {"q_proj.weight": 16, "q_b_proj.weight": 16, "kv_a_proj_with_mqa.weight": 9, "o_proj.weight": 16}
    tensors = {f"{ATTENTION}.{name}": torch.arange(rows).float()[:, None].repeat(1, 2) for name, rows in sizes.items()}
    tensors[f"{ATTENTION}.kv_a_proj_with_mqa.bias"] = torch.arange(9).float()
    save_file(tensors, tmp_path / "model.safetensors")
    return dict(read_shard(tmp_path / "model.safetensors"))


def _rows(tensor: StoredTensor) -> list[int]:
    numbers = tensor.expand()
    return [int(row) for row in (numbers if numbers.dim() == 1 else numbers[:, 0])]


def test_the_first_of_each_pair_comes_before_the_second(found: dict[str, StoredTensor]) -> None:
    ordered = order_rotated_rows(found, LATENT)
    head = [0, 1, 2, 4, 6, 3, 5, 7]
    for name in ("q_proj", "q_b_proj"):
        assert _rows(ordered[f"{ATTENTION}.{name}.weight"]) == [*head, *(8 + row for row in head)]
    for kind in ("weight", "bias"):
        assert _rows(ordered[f"{ATTENTION}.kv_a_proj_with_mqa.{kind}"]) == [0, 1, 2, 3, 5, 7, 4, 6, 8]


def test_all_else_stays(found: dict[str, StoredTensor]) -> None:
    assert order_rotated_rows(found, LATENT)[f"{ATTENTION}.o_proj.weight"] is found[f"{ATTENTION}.o_proj.weight"]
    assert order_rotated_rows(found, replace(LATENT, interleaved=False)) == found


def test_a_tensor_of_another_size_is_left_to_be_refused(found: dict[str, StoredTensor]) -> None:
    wider = order_rotated_rows(found, replace(LATENT, plain_dim=5))
    assert wider[f"{ATTENTION}.q_proj.weight"] is found[f"{ATTENTION}.q_proj.weight"]
