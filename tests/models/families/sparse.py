"""Small random checkpoints of the families with experts whose routers have a correction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from transformers import (
    Ernie4_5_MoeConfig,
    Ernie4_5_MoeForCausalLM,
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    Glm4MoeLiteConfig,
    Glm4MoeLiteForCausalLM,
    GraniteMoeSharedConfig,
    GraniteMoeSharedForCausalLM,
    HunYuanMoEV1Config,
    HunYuanMoEV1ForCausalLM,
    LagunaConfig,
    LagunaForCausalLM,
    MiniMaxM2Config,
    MiniMaxM2ForCausalLM,
)

from tests.models.families.writing import write_checkpoint

_EXPERTS: dict[str, Any] = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 32,
    "n_shared_experts": 2,
    "routed_scaling_factor": 1.5,
}
_glm4_moe = partial(write_checkpoint, model_class=Glm4MoeForCausalLM, config_class=Glm4MoeConfig, **_EXPERTS)
_glm4_moe_lite = partial(
    write_checkpoint,
    model_class=Glm4MoeLiteForCausalLM,
    config_class=Glm4MoeLiteConfig,
    **_EXPERTS,
    num_key_value_heads=4,
    q_lora_rank=32,
    kv_lora_rank=48,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=20,
)
_minimax_m2 = partial(
    write_checkpoint,
    model_class=MiniMaxM2ForCausalLM,
    config_class=MiniMaxM2Config,
    head_dim=24,
    rotary_dim=16,
    num_local_experts=6,
    num_experts_per_tok=2,
)
_granite_moe_shared = partial(
    write_checkpoint,
    model_class=GraniteMoeSharedForCausalLM,
    config_class=GraniteMoeSharedConfig,
    num_local_experts=5,
    shared_intermediate_size=40,
    embedding_multiplier=3.0,
    residual_multiplier=0.5,
    attention_multiplier=0.2,
    logits_scaling=2.0,
)
_ernie_moe = partial(
    write_checkpoint,
    model_class=Ernie4_5_MoeForCausalLM,
    config_class=Ernie4_5_MoeConfig,
    tie_word_embeddings=False,
    moe_num_experts=6,
    moe_k=2,
    moe_intermediate_size=32,
    moe_num_shared_experts=2,
)
_hunyuan_moe = partial(
    write_checkpoint,
    model_class=HunYuanMoEV1ForCausalLM,
    config_class=HunYuanMoEV1Config,
    head_dim=16,
    num_experts=6,
)
_laguna = partial(
    write_checkpoint,
    model_class=LagunaForCausalLM,
    config_class=LagunaConfig,
    head_dim=24,
    sliding_window=16,
    num_experts=6,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    shared_expert_intermediate_size=40,
    moe_routed_scaling_factor=1.5,
)

SPARSE_FAMILIES: dict[str, Callable[..., None]] = {
    "glm4-moe": partial(_glm4_moe, seed=50, head_dim=24, attention_bias=True),
    "glm4-moe-qk-norm": partial(
        _glm4_moe,
        seed=51,
        use_qk_norm=True,
        n_group=4,
        topk_group=2,
        first_k_dense_replace=2,
        norm_topk_prob=False,
    ),
    "glm4-moe-lite": partial(_glm4_moe_lite, seed=52),
    "glm4-moe-lite-layers": partial(
        _glm4_moe_lite, seed=53, rope_interleave=False, mlp_layer_types=["sparse", "dense", "sparse"]
    ),
    "minimax-m2": partial(_minimax_m2, seed=54),
    "granite-moe-shared": partial(_granite_moe_shared, seed=55),
    "ernie-moe": partial(_ernie_moe, seed=58),
    "ernie-moe-layers": partial(
        _ernie_moe, seed=57, num_hidden_layers=4, moe_layer_interval=2, moe_layer_end_index=2, moe_num_shared_experts=0
    ),
    "laguna": partial(
        _laguna,
        seed=61,
        num_hidden_layers=4,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        num_attention_heads_per_layer=[4, 6, 6, 2],
        rope_parameters={
            "full_attention": {
                "rope_type": "yarn",
                "rope_theta": 500_000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
                "partial_rotary_factor": 0.5,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        },
    ),
    "laguna-elements": partial(_laguna, seed=62, gating="per-element", mlp_layer_types=["sparse", "dense", "sparse"]),
    "hunyuan-moe": partial(_hunyuan_moe, seed=59, moe_topk=2),
    "hunyuan-moe-layers": partial(_hunyuan_moe, seed=60, moe_topk=[1, 3, 2], attention_bias=True),
}
