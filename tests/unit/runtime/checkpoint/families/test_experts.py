"""The keys of experts, as each family has them: which layers have them, how a row chooses, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.layer_config import MAX_EXPERTS, ExpertsConfig
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
        (LITE, {"n_routed_experts": 50000}, "50000 makes more than 65536 in all layers"),
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


# --- Mixtral, Qwen3-MoE, gpt-oss, OLMoE -------------------------------------------------------------------------------

# What the published files say of experts (mistralai, Qwen, openai, allenai), in models of fewer layers.
MIXTRAL = {
    **_SIZES,
    "architectures": ["MixtralForCausalLM"],
    "num_hidden_layers": 3,
    "intermediate_size": 14336,
    "num_key_value_heads": 4,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "rope_theta": 1e6,
    "sliding_window": None,
}
QWEN = {
    **_SIZES,
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 4,
    "intermediate_size": 6144,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
GPT_OSS = {
    **_SIZES,
    "architectures": ["GptOssForCausalLM"],
    "num_hidden_layers": 4,
    "intermediate_size": 2880,
    "num_key_value_heads": 2,
    "experts_per_token": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "max_position_embeddings": 131072,
    "initial_context_length": 4096,
    "num_experts_per_tok": 4,
    "num_local_experts": 32,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
}
OLMOE = {
    **_SIZES,
    "architectures": ["OlmoeForCausalLM"],
    "num_hidden_layers": 2,
    "intermediate_size": 1024,
    "clip_qkv": None,
    "norm_topk_prob": False,
    "num_experts": 64,
    "num_experts_per_tok": 8,
}


@pytest.mark.parametrize(
    ("settings", "experts"),
    [
        (MIXTRAL, ExpertsConfig(8, 2, 14336)),
        (QWEN, ExpertsConfig(128, 8, 768)),
        ({**QWEN, "norm_topk_prob": False}, ExpertsConfig(128, 8, 768, normalised=False)),
        (GPT_OSS, ExpertsConfig(32, 4, 2880, bias=True, clamped=(1.702, 7.0))),
        (OLMOE, ExpertsConfig(64, 8, 1024, normalised=False)),
    ],
    ids=["mixtral", "qwen", "qwen-shares", "gpt-oss", "olmoe"],
)
def test_experts_of_published_files(settings: dict[str, Any], experts: ExpertsConfig) -> None:
    assert parse_config(settings).experts == (experts,) * settings["num_hidden_layers"]


def test_experts_are_counted_by_either_name() -> None:
    """Transformers 5 writes `num_local_experts` where published files have `num_experts`."""
    renamed = {**QWEN, "num_local_experts": QWEN["num_experts"]}
    del renamed["num_experts"]
    assert parse_config(renamed).experts == parse_config(QWEN).experts


@pytest.mark.parametrize(
    ("changes", "has_experts"),
    [
        ({"mlp_only_layers": [0, 2]}, [False, True, False, True]),
        ({"decoder_sparse_step": 2}, [False, True, False, True]),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [1]}, [False, False, False, True]),
        ({"mlp_only_layers": None}, [True, True, True, True]),
    ],
)
def test_layers_that_keep_a_plain_mlp(changes: dict[str, Any], has_experts: list[bool]) -> None:
    assert [one is not None for one in parse_config({**QWEN, **changes}).experts] == has_experts


def test_gpt_oss_has_a_window_in_every_other_layer_and_yarn_without_rounding() -> None:
    config = parse_config(GPT_OSS)
    assert config.window == (128, None) * 2
    assert config.sinks
    assert config.head_dim == 64
    assert config.context_length == 131072
    (rope,) = config.distinct_ropes
    assert (rope.kind, rope.theta, rope.factor, rope.truncate) == ("yarn", 150000.0, 32.0, False)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({**QWEN, "num_local_experts": 64}, "num_experts 64 is 128 by another of its names"),
        ({**QWEN, "num_experts_per_tok": 129}, "num_experts_per_tok 129 is more than the 128 experts"),
        ({**QWEN, "num_experts": 0}, "num_experts 0 is not a whole number"),
        ({**QWEN, "num_experts": MAX_EXPERTS}, f"makes more than {MAX_EXPERTS} in all layers"),
        ({**QWEN, "mlp_only_layers": "all"}, "mlp_only_layers 'all' is not a list of layers"),
        ({**QWEN, "decoder_sparse_step": 0}, "decoder_sparse_step 0 is not a whole number"),
        ({**GPT_OSS, "swiglu_limit": 0}, "swiglu_limit 0 is not a number above 0"),
        ({**OLMOE, "clip_qkv": 8.0}, r"clip_qkv 8\.0 is not supported"),
    ],
)
def test_what_is_no_mixture_of_experts_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(CheckpointError, match=says):
        parse_config(settings)
