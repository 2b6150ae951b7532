"""Recurrent layers as files describe them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.recurrent_config import ShortConvConfig, StatePart
from runtime.errors import CheckpointError
from tests.rows import every_row

LFM2 = {  # as the published files of LFM2-350M have it
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "block_ff_dim": 6656,
    "conv_L_cache": 3,
    "conv_bias": False,
    "full_attn_idxs": [2, 4],
    "hidden_size": 1024,
    "intermediate_size": 6656,
    "max_position_embeddings": 128_000,
    "norm_eps": 1e-05,
    "num_attention_heads": 16,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "rope_theta": 1_000_000.0,
    "tie_embedding": True,
    "vocab_size": 65536,
}


def test_the_keys_of_published_files_are_read() -> None:
    config = parse_config(LFM2)
    conv = ShortConvConfig(channels=1024, width=3, bias=False)
    assert config.recurrent == (conv, conv, None, conv, None)
    assert config.states[:3] == ((StatePart((2, 1024)),), (StatePart((2, 1024)),), None)
    assert (config.kv_pieces, config.is_hybrid) == ((0, 0, 1, 0, 1), True)
    assert (config.intermediate_size, config.tied_embeddings) == (4608, True)


@every_row(
    "settings, size",
    [
        ({"block_ff_dim": 12288}, 8192),
        ({"block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.01}, 8448),
        ({"block_ff_dim": 100, "block_ffn_dim_multiplier": None}, 66),
        ({"block_ff_dim": 100, "block_auto_adjust_ff_dim": False}, 100),
    ],
)
def test_the_inner_width_is_adjusted_as_transformers_does(settings: dict[str, Any], size: int) -> None:
    assert parse_config({**LFM2, **settings}).intermediate_size == size


@every_row(
    "settings, key",
    [
        ({"full_attn_idxs": []}, "layer_types"),
        ({"full_attn_idxs": ["2"]}, "full_attn_idxs"),
        ({"layer_types": ["conv"] * 5}, "layer_types"),
        ({"layer_types": ["conv"] * 4 + ["sliding_attention"]}, "layer_types"),
        ({"layer_types": ["conv", "full_attention"]}, "layer_types"),
        ({"conv_L_cache": 0}, "conv_L_cache"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        parse_config({**LFM2, **settings})
