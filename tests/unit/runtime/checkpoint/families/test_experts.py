"""The keys of DeepSeek's experts: which layers have them, how a row chooses, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.experts_config import ExpertsConfig
from runtime.errors import CheckpointError

_SIZES = {"vocab_size": 1000, "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128}

# What the published files say of experts (deepseek-ai, config.json), in models of fewer layers.
LITE = {
    **_SIZES,
    "architectures": ["DeepseekV2ForCausalLM"],
    "num_hidden_layers": 3,
    "intermediate_size": 10944,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 1408,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "num_experts_per_tok": 6,
    "q_lora_rank": None,
    "routed_scaling_factor": 1.0,
    "scoring_func": "softmax",
    "topk_group": 1,
    "topk_method": "greedy",
}
V2 = {
    **LITE,
    "n_routed_experts": 160,
    "n_group": 8,
    "topk_group": 3,
    "topk_method": "group_limited_greedy",
    "routed_scaling_factor": 16.0,
}
V3 = {
    **_SIZES,
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 5,
    "intermediate_size": 18432,
    "first_k_dense_replace": 3,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 8,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 8,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 4,
    "topk_method": "noaux_tc",
}


@pytest.mark.parametrize(
    ("settings", "plain", "experts"),
    [
        (LITE, 1, ExpertsConfig(64, 6, 1408, normalised=False, shared_size=2816)),
        (
            V2,
            1,
            ExpertsConfig(160, 6, 1408, normalised=False, groups=8, groups_per_row=3, scaling=16.0, shared_size=2816),
        ),
        (V3, 3, ExpertsConfig(256, 8, 2048, "sigmoid", groups=8, groups_per_row=4, scaling=2.5, shared_size=2048)),
    ],
    ids=["V2-Lite", "V2", "V3"],
)
def test_the_published_files(settings: dict[str, Any], plain: int, experts: ExpertsConfig) -> None:
    config = parse_config(settings)
    assert config.experts == (None,) * plain + (experts,) * (config.num_layers - plain)


def test_a_model_without_experts_says_nothing_of_them() -> None:
    assert parse_config({**_SIZES, **V3, "first_k_dense_replace": 9, "n_routed_experts": None}).experts == (None,) * 5


@pytest.mark.parametrize(
    ("settings", "keys", "message"),
    [
        (LITE, {"norm_topk_prob": True}, "norm_topk_prob True is not supported: what it means"),
        (LITE, {"topk_method": "noaux_tc"}, "topk_method 'noaux_tc' is neither 'greedy' nor"),
        (LITE, {"scoring_func": "sigmoid"}, "scoring_func 'sigmoid' is not supported, only 'softmax'"),
        (LITE, {"moe_layer_freq": 2}, "moe_layer_freq 2 is not supported"),
        (LITE, {"num_experts_per_tok": None}, "num_experts_per_tok None is not a whole number"),
        (LITE, {"num_experts_per_tok": 65}, "num_experts_per_tok 65 is more than the 64 experts"),
        (LITE, {"n_routed_experts": 5000}, "5000 is more than the 4096"),
        (V2, {"n_group": None}, "n_group None is not a whole number"),
        (V3, {"topk_method": "greedy"}, "topk_method 'greedy' is not supported, only 'noaux_tc'"),
        (V3, {"scoring_func": "softmax"}, "scoring_func 'softmax' is not supported, only 'sigmoid'"),
        (V3, {"n_group": 7}, "n_group 7 does not divide the 256 experts"),
        (V3, {"n_group": 256}, "n_group 256 does not divide the 256 experts of a layer into groups of 2 or more"),
        (V3, {"topk_group": 9}, "topk_group 9 groups of 8 do not hold the 8 experts"),
        (V3, {"n_group": 64, "topk_group": 1}, "topk_group 1 groups of 64 do not hold the 8 experts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_name_the_key(settings: dict[str, Any], keys: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        parse_config({**settings, **keys})
