"""The tables and the rotation against transformers' own, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
import torch
from transformers import AutoConfig, LlamaConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.mistral.modeling_mistral import MistralRotaryEmbedding
from transformers.models.mixtral.modeling_mixtral import MixtralRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeRotaryEmbedding
from transformers.models.smollm3.modeling_smollm3 import SmolLM3RotaryEmbedding

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.open import open_checkpoint
from runtime.checkpoint.rope_config import RopeConfig, RopeKind
from runtime.nn.layers.rope import apply_rope, frequencies, rope_tables
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_ROTARY = {
    "deepseek_v2": DeepseekV3RotaryEmbedding,  # its own gives the same as complex numbers
    "deepseek_v3": DeepseekV3RotaryEmbedding,
    "gemma3_text": Gemma3RotaryEmbedding,
    "gpt_oss": GptOssRotaryEmbedding,
    "llama": LlamaRotaryEmbedding,
    "mistral": MistralRotaryEmbedding,
    "mixtral": MixtralRotaryEmbedding,
    "qwen2": Qwen2RotaryEmbedding,
    "qwen3": Qwen3RotaryEmbedding,
    "qwen3_moe": Qwen3MoeRotaryEmbedding,
    "smollm3": SmolLM3RotaryEmbedding,
}


_LENGTH = 600  # positions, so twice and more the families' context


_HALVES = {"gpt_oss"}  # their embedding has one number for the two halves of a head
_BY_TYPE = {"gemma3_text"}  # their embedding has a set of frequencies for each type of layer


def _theirs(config: Any, length: int, dtype: torch.dtype, layer: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    rotary = _ROTARY[config.model_type](config)
    types = [config.layer_types[layer]] if config.model_type in _BY_TYPE else []
    cos, sin = rotary(torch.zeros(1, dtype=dtype), torch.arange(length)[None], *types)
    if config.model_type in _HALVES:
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
    return cos[0], sin[0]


def _signed(sin: Tensor) -> Tensor:
    """The first half of the sines turned round, as ours are."""
    first, second = sin.chunk(2, dim=-1)
    return torch.cat((-first, second), dim=-1)


def _assert_same_tables(theirs: Any, ours: RopeConfig, dtype: torch.dtype, layer: int = 0) -> None:  # noqa: ANN401
    cos, sin = _theirs(theirs, _LENGTH, dtype, layer)
    expected = cos, _signed(sin)
    for mine, other in zip(rope_tables(ours, _LENGTH, "cpu", dtype), expected, strict=True):
        assert mine.dtype == dtype
        assert mine.shape == (_LENGTH, ours.rotary_dim)
        assert torch.equal(mine, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_tables_of_every_family(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    theirs, ours = AutoConfig.from_pretrained(tmp_path), open_checkpoint(tmp_path).config.ropes
    assert any(ours)
    for layer, rope in enumerate(ours):
        if rope is not None:
            _assert_same_tables(theirs, rope, dtype, layer)


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "default", "rope_theta": 1_000_000},
        {"rope_type": "linear", "rope_theta": 5e5, "factor": 2.5},
        {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768},
        {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 16.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "mscale": 0.8,
            "mscale_all_dim": 0.5,
            "truncate": False,
        },
        {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 2.0,
            "original_max_position_embeddings": 4096,
            "attention_factor": 1.25,
        },
    ],
    ids=lambda parameters: f"{parameters['rope_type']}-{len(parameters)}",
)
def test_tables_at_published_sizes(parameters: dict[str, Any]) -> None:
    theirs = LlamaConfig(
        hidden_size=512,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=131072,
        rope_parameters=dict(parameters),
    )
    ours = parse_config({**theirs.to_dict(), "architectures": ["LlamaForCausalLM"]}).distinct_ropes[0]
    _assert_same_tables(theirs, ours, torch.float32)


@pytest.mark.parametrize("kind", get_args(RopeKind))
def test_frequencies_are_float32(kind: RopeKind) -> None:
    pairs = (2.0,) * 32
    config = RopeConfig(kind, 64, 1e4, factor=4.0, original_context=4096, short_factor=pairs, long_factor=pairs)
    found = frequencies(config, _LENGTH)
    assert found.dtype == torch.float32
    assert found.shape == (32,)


def test_rotation_is_theirs() -> None:
    cos, sin = rope_tables(RopeConfig("default", 32, 1e4), 40, "cpu", torch.float32)
    query, key = torch.randn(40, 4, 32), torch.randn(40, 2, 32)
    expected = apply_rotary_pos_emb(query, key, cos, _signed(sin), unsqueeze_dim=1)
    torch.testing.assert_close(apply_rope(query, cos[:, None], sin[:, None]), expected[0])
    apply_rope(key, cos[:, None], sin[:, None], out=key)
    torch.testing.assert_close(key, expected[1])


def test_scores_depend_on_the_distance_alone() -> None:
    cos, sin = rope_tables(RopeConfig("default", 64, 1e4), 600, "cpu", torch.float32)
    query, key = torch.randn(1, 1, 64), torch.randn(1, 1, 64)

    def score(at: int, of: int) -> Tensor:
        rotated = apply_rope(query, cos[at, None, None], sin[at, None, None])
        return (rotated * apply_rope(key, cos[of, None, None], sin[of, None, None])).sum()

    torch.testing.assert_close(score(17, 5), score(512, 500), atol=1e-3, rtol=0)
