"""The keys of latent attention: what they mean, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runtime.checkpoint.config import parse_config
from runtime.errors import CheckpointError

# DeepSeek-V3's own file (deepseek-ai/DeepSeek-V3, config.json), with dense layers alone.
V3 = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 3,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 4096,
    },
}


def test_the_published_file() -> None:
    config = parse_config(V3)
    latent = config.latent
    assert latent is not None
    assert (latent.query_dim, latent.stored_dim, latent.interleaved) == (192, 576, True)
    assert config.kv_shape == (1, 1, 576)
    assert (config.head_dim, config.context_length) == (192, 163840)
    (rope,) = config.distinct_ropes
    assert (rope.rotary_dim, rope.attention_factor) == (64, 1.0)
    # The published computation: a tenth of the logarithm of the stretch, and one, squared.
    assert latent.scale == pytest.approx(192**-0.5 * (0.1 * math.log(40) + 1) ** 2)


@pytest.mark.parametrize(
    "scaling",
    [None, {"type": "yarn", "factor": 40}, {"rope_type": "default", "mscale_all_dim": 1.0}],
    ids=["nothing", "no mscale_all_dim", "not stretched"],
)
def test_attention_is_sharpened_only_where_a_stretched_rope_says_so(scaling: dict[str, Any] | None) -> None:
    latent = parse_config({**V3, "rope_scaling": scaling}).latent
    assert latent is not None
    assert latent.scale == 192**-0.5


def test_the_lite_form_has_queries_of_the_hidden_state() -> None:
    latent = parse_config({**V3, "q_lora_rank": None}).latent
    assert latent is not None
    assert latent.query_rank is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_key_value_heads": 8}, "num_key_value_heads 8 is not the 128 of num_attention_heads"),
        ({"qk_rope_head_dim": 63}, "qk_rope_head_dim 63 is odd"),
        ({"head_dim": 128}, "head_dim 128 is not the 64 of qk_rope_head_dim"),
        ({"kv_lora_rank": None}, "kv_lora_rank None is not a whole number"),
        ({"v_head_dim": 193}, "v_head_dim 193 is not supported: values are wider"),
        ({"q_lora_rank": 0}, "q_lora_rank 0 is not a whole number"),
        ({"q_lora_rank": None, "attention_bias": True}, "attention_bias True is not supported without q_lora_rank"),
        ({"rope_interleave": "yes"}, "rope_interleave 'yes' is neither true nor false"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_name_the_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        parse_config({**V3, **keys})
