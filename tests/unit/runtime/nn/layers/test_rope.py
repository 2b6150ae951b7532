"""The tables and the rotation against transformers' own, to the last bit."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, LlamaConfig, Phi3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.modeling_auto import MODEL_MAPPING
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.layer_config import RopeConfig, RopeKind
from runtime.checkpoint.open import open_checkpoint
from runtime.nn.layers.rope import apply_rope, frequencies, rope_tables
from tests.models.checkpoints import FAMILIES

_LENGTH = 600  # positions, so twice and more the families' context


def _rotary(config: Any) -> Any:  # noqa: ANN401
    """Transformers' module that computes the tables of such a model."""
    if config.model_type == "deepseek_v2":  # its own gives the same as complex numbers
        return DeepseekV3RotaryEmbedding(config)
    module = sys.modules[MODEL_MAPPING[type(config)].__module__]
    (name,) = (name for name in vars(module) if name.endswith("RotaryEmbedding") and "Vision" not in name)
    return getattr(module, name)(config)


def _theirs(config: Any, length: int, dtype: torch.dtype, layer: int) -> list[Tensor]:  # noqa: ANN401
    """Cosines and sines, `[length, rotary_dim]`; those of interleaved pairs in the order of the others."""
    by_type = "rope_theta" not in config.rope_parameters
    types = [config.layer_types[layer]] if by_type else []
    tables = _rotary(config)(torch.zeros(1, dtype=dtype), torch.arange(length)[None], *types)
    if config.model_type == "gpt_oss":  # its own has one number for the two halves of a head
        tables = [torch.cat((table, table), dim=-1) for table in tables]
    if config.model_type.startswith("cohere"):
        tables = [torch.cat((table[..., ::2], table[..., ::2]), dim=-1) for table in tables]
    return [table[0].to(dtype) for table in tables]


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


NOT_ROTATED = (
    "granite-hybrid-moe",
    "kimi-linear",
    "kimi-linear-lists",
    "nemotron-h",
    "nemotron-h-moe",
    "nemotron-h-latent",
    "olmo-hybrid",
)


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_of_every_family(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    theirs = AutoConfig.from_pretrained(tmp_path).get_text_config()
    ours = open_checkpoint(tmp_path).config.ropes
    assert any(ours) == (family not in NOT_ROTATED)
    for layer, rope in enumerate(ours):
        if rope is not None:
            for dtype in (torch.float32, torch.bfloat16):
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


@pytest.mark.parametrize("given", ["none", "itself", "another"])
def test_the_last_numbers_of_a_head_may_stay(given: str) -> None:
    cos, sin = (table[:, None] for table in rope_tables(RopeConfig("default", 24, 1e4), 40, "cpu", torch.float32))
    heads = torch.randn(40, 4, 32)
    expected = torch.cat((apply_rope(heads[..., :24], cos, sin), heads[..., 24:]), dim=-1)
    out = {"none": None, "itself": heads, "another": torch.full_like(heads, torch.nan)}[given]
    rotated = apply_rope(heads, cos, sin, out=out)
    assert torch.equal(rotated, expected)
    assert out is None or rotated is out


@pytest.mark.parametrize(("length", "long"), [(4096, False), (4097, True), (131072, True)])
def test_longrope_chooses_by_what_a_slot_may_hold(length: int, long: bool) -> None:
    """As transformers does for a sequence of that length; numbers are those of Phi-3.5-mini, but for the factors."""
    short_factor, long_factor = [1.0 + i / 48 for i in range(48)], [1.0 + i for i in range(48)]
    scaling = {"type": "longrope", "short_factor": short_factor, "long_factor": long_factor}
    settings = {
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 100,
        "intermediate_size": 100,
        "num_hidden_layers": 1,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
    }
    ours = parse_config({**settings, "model_type": "phi3", "rope_scaling": scaling}).distinct_ropes[0]
    theirs = Phi3Config(**settings, pad_token_id=0, rope_scaling=dict(scaling))
    inverse, factor = ROPE_INIT_FUNCTIONS["longrope"](theirs, "cpu", seq_len=length)
    assert torch.equal(frequencies(ours, length), inverse)
    unscaled = frequencies(ours, length) * torch.tensor(long_factor if long else short_factor)
    torch.testing.assert_close(unscaled, frequencies(RopeConfig("default", 96, 1e4), length))
    assert ours.attention_factor == factor == math.sqrt(1 + math.log(32) / math.log(4096))


def test_scores_depend_on_the_distance_alone() -> None:
    cos, sin = rope_tables(RopeConfig("default", 64, 1e4), 600, "cpu", torch.float32)
    query, key = torch.randn(1, 1, 64), torch.randn(1, 1, 64)

    def score(at: int, of: int) -> Tensor:
        rotated = apply_rope(query, cos[at, None, None], sin[at, None, None])
        return (rotated * apply_rope(key, cos[of, None, None], sin[of, None, None])).sum()

    torch.testing.assert_close(score(17, 5), score(512, 500), atol=1e-3, rtol=0)
