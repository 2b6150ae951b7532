"""A rank's share of a checkpoint's tensors: rows, columns, codes of four bits, and what only one rank adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.checkpoint.stored import ALL, GroupCodes
from runtime.devices.parallel.share import Share
from runtime.devices.parallel.tensors import ColumnSlice, share_tensors
from runtime.nn.matrices.arithmetic import quantize_int4
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.checkpoint.stored import CodeFormat, Rows, StoredTensor

LAYER = "model.layers.0."


def shares(folder: Path, family: str) -> tuple[dict[str, StoredTensor], list[dict[str, StoredTensor]]]:
    FAMILIES[family](folder)
    checkpoint = open_checkpoint(folder)
    whole = dict(checkpoint.tensors())
    return whole, [share_tensors(whole, checkpoint.config, Share(rank, 2)) for rank in range(2)]


@pytest.mark.parametrize(
    ("family", "name", "dim"),
    [
        ("llama-bias", "self_attn.q_proj.weight", 0),
        ("llama-bias", "self_attn.k_proj.bias", 0),
        ("llama-bias", "self_attn.o_proj.weight", 1),
        ("llama-bias", "mlp.gate_proj.weight", 0),
        ("llama-bias", "mlp.up_proj.bias", 0),
        ("llama-bias", "mlp.down_proj.weight", 1),
        ("gpt-oss", "self_attn.sinks", 0),
        ("gpt-oss", "mlp.experts.3.gate_proj.weight", 0),
        ("gpt-oss", "mlp.experts.3.down_proj.weight", 1),
        ("cohere-qk-norm", "self_attn.q_norm.weight", 0),
        ("olmo2", "self_attn.k_norm.weight", 0),
        ("deepseek3", "self_attn.q_b_proj.weight", 0),
        ("deepseek3", "self_attn.kv_b_proj.weight", 0),
    ],
)
def test_shares_put_together_are_the_tensor(family: str, name: str, dim: int, tmp_path: Path) -> None:
    whole, ranks = shares(tmp_path, family)
    parts = [rank[LAYER + name] for rank in ranks]
    assert all(part.num_bytes * 2 == whole[LAYER + name].num_bytes for part in parts)
    read = [part.expand() for part in parts]
    assert [tuple(part.shape) for part in read] == [part.shape for part in parts]
    assert torch.equal(torch.cat(read, dim), whole[LAYER + name].expand())


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("llama", "input_layernorm.weight"),
        ("qwen3", "self_attn.q_norm.weight"),
        ("deepseek3", "self_attn.q_a_proj.weight"),
        ("deepseek3", "self_attn.kv_a_proj_with_mqa.weight"),
        ("gpt-oss", "mlp.gate.weight"),
    ],
)
def test_what_is_not_of_heads_or_inner_numbers_is_whole_on_every_rank(family: str, name: str, tmp_path: Path) -> None:
    whole, ranks = shares(tmp_path, family)
    assert all(rank[LAYER + name] is whole[LAYER + name] for rank in ranks)


@pytest.mark.parametrize("name", ["self_attn.o_proj.bias", "mlp.experts.2.down_proj.bias"])
def test_what_is_added_to_a_sum_is_added_once(name: str, tmp_path: Path) -> None:
    whole, (first, second) = shares(tmp_path, "gpt-oss")
    assert first[LAYER + name] is whole[LAYER + name]
    zeros = second[LAYER + name].expand()
    assert zeros.shape == whole[LAYER + name].shape
    assert not zeros.any()


@dataclass(frozen=True)
class Coded:
    """A matrix in four bits."""

    data: GroupCodes
    file = "somewhere"
    form = "Q4"

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs before inputs."""
        return tuple(self.data.codes.shape)

    @property
    def num_bytes(self) -> int:
        """Half a byte a code."""
        return self.data.codes.nbytes // 2

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of the codes."""
        return self.data.format

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Return plain numbers."""
        return self.data.expand()[rows]

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Return some rows."""
        codes = self.data
        return GroupCodes(codes.codes[rows], codes.scales[rows], codes.zeros[rows], codes.group)


def test_columns_keep_their_codes_where_no_group_is_torn() -> None:
    weight = torch.randn(4, 128, generator=torch.Generator().manual_seed(1))
    coded = Coded(quantize_int4(weight, torch.float32))
    right = ColumnSlice(coded, slice(64, 128))
    assert right.code_format == coded.data.format
    assert torch.equal(right.codes(slice(1, 3)).expand(), coded.data.expand()[1:3, 64:])
    torn = ColumnSlice(coded, slice(48, 96))
    assert torn.code_format is None
    assert torch.equal(torn.expand(), coded.data.expand()[:, 48:96])
