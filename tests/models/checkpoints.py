"""Small random checkpoints of every family that cede reads, written by transformers itself.

`FAMILIES[name](folder)` fills `folder` as `tests.models.families.writing` does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from transformers import (
    DeepseekV2Config,
    DeepseekV2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    GraniteMoeConfig,
    GraniteMoeForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Mistral4Config,
    Mistral4ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OlmoeConfig,
    OlmoeForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

from tests.models.families.dense import DENSE_FAMILIES
from tests.models.families.hybrid import HYBRID_FAMILIES
from tests.models.families.sparse import SPARSE_FAMILIES
from tests.models.families.writing import write_checkpoint

_llama = partial(write_checkpoint, model_class=LlamaForCausalLM, config_class=LlamaConfig)
_mistral = partial(write_checkpoint, model_class=MistralForCausalLM, config_class=MistralConfig)
_qwen2 = partial(write_checkpoint, model_class=Qwen2ForCausalLM, config_class=Qwen2Config)
_qwen3 = partial(write_checkpoint, model_class=Qwen3ForCausalLM, config_class=Qwen3Config)
_mixtral = partial(write_checkpoint, model_class=MixtralForCausalLM, config_class=MixtralConfig, num_local_experts=4)
_olmoe = partial(
    write_checkpoint, model_class=OlmoeForCausalLM, config_class=OlmoeConfig, num_experts=6, num_experts_per_tok=2
)
_granite_moe = partial(
    write_checkpoint,
    model_class=GraniteMoeForCausalLM,
    config_class=GraniteMoeConfig,
    num_local_experts=5,
    embedding_multiplier=3.0,
    residual_multiplier=0.5,
    attention_multiplier=0.2,
    logits_scaling=2.0,
)
_gpt_oss = partial(
    write_checkpoint,
    model_class=GptOssForCausalLM,
    config_class=GptOssConfig,
    num_local_experts=6,
    num_experts_per_tok=3,
    head_dim=16,
    sliding_window=16,
)
_qwen3_moe = partial(
    write_checkpoint,
    model_class=Qwen3MoeForCausalLM,
    config_class=Qwen3MoeConfig,
    num_experts=8,
    num_experts_per_tok=3,
    moe_intermediate_size=48,
)
_smollm3 = partial(write_checkpoint, model_class=SmolLM3ForCausalLM, config_class=SmolLM3Config)
_deepseek2 = partial(write_checkpoint, model_class=DeepseekV2ForCausalLM, config_class=DeepseekV2Config)
_deepseek3 = partial(write_checkpoint, model_class=DeepseekV3ForCausalLM, config_class=DeepseekV3Config)
_mistral4 = partial(write_checkpoint, model_class=Mistral4ForCausalLM, config_class=Mistral4Config)

_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
_YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
# Of other widths each, so that none can be taken for another.
_LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 48,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "moe_intermediate_size": 32,
}
LATENT_YARN_ROPE = {**_YARN_ROPE, "mscale": 0.8, "mscale_all_dim": 0.6}

_DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}

FAMILIES: dict[str, Callable[..., None]] = {
    "llama": partial(_llama, seed=1),
    "llama-mha": partial(_llama, seed=2, num_key_value_heads=4),
    "llama3-rope": partial(_llama, seed=3, rope_parameters=_LLAMA3_ROPE),
    "linear-rope": partial(_llama, seed=4, rope_parameters=_LINEAR_ROPE),
    "yarn-rope": partial(_llama, seed=5, rope_parameters=_YARN_ROPE),
    "llama-bias": partial(_llama, seed=6, attention_bias=True, mlp_bias=True),
    "llama-sharded": partial(_llama, seed=1, shard_size="100KB"),  # the weights of "llama"
    "smollm": partial(_llama, seed=7, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True),
    "smollm3": partial(_smollm3, seed=8, no_rope_layers=[1, 0, 1]),
    "mistral": partial(_mistral, seed=9, sliding_window=16),
    "mistral-full": partial(_mistral, seed=10, sliding_window=None, head_dim=32),
    "qwen2": partial(_qwen2, seed=11, tie_word_embeddings=True),
    "qwen2-window": partial(_qwen2, seed=12, use_sliding_window=True, sliding_window=16, max_window_layers=1),
    "qwen3": partial(_qwen3, seed=13, head_dim=32),
    "mixtral": partial(_mixtral, seed=21),
    "mixtral-window": partial(_mixtral, seed=22, sliding_window=16, tie_word_embeddings=True),
    "qwen3-moe": partial(_qwen3_moe, seed=23, norm_topk_prob=True, mlp_only_layers=[1]),
    "qwen3-moe-shares": partial(_qwen3_moe, seed=24, head_dim=32, decoder_sparse_step=2),
    "olmoe": partial(_olmoe, seed=27),
    "granite-moe": partial(_granite_moe, seed=28),
    "gpt-oss": partial(_gpt_oss, seed=35, rope_parameters={**_YARN_ROPE, "truncate": False}),
    "gpt-oss-plain-rope": partial(_gpt_oss, seed=26, rope_parameters=_DEFAULT_ROPE, swiglu_limit=1.5),
    "qwen3-tied": partial(_qwen3, seed=14, head_dim=16, tie_word_embeddings=True, attention_bias=True),
    "deepseek2-lite": partial(_deepseek2, seed=15, **_LATENT, q_lora_rank=None, num_experts_per_tok=3),
    "deepseek2": partial(
        _deepseek2,
        seed=16,
        **_LATENT,
        q_lora_rank=32,
        rope_parameters=LATENT_YARN_ROPE,
        topk_method="group_limited_greedy",
        n_group=4,
        topk_group=2,
        num_experts_per_tok=3,
        routed_scaling_factor=1.5,
    ),
    "deepseek3": partial(
        _deepseek3,
        seed=17,
        **_LATENT,
        q_lora_rank=32,
        attention_bias=True,
        n_group=4,
        topk_group=2,
        num_experts_per_tok=3,
    ),
    "deepseek3-plain": partial(
        _deepseek3,
        seed=18,
        **{**_LATENT, "first_k_dense_replace": 3},
        q_lora_rank=None,
        rope_interleave=False,
        rope_parameters=LATENT_YARN_ROPE,
    ),
    "mistral4": partial(
        _mistral4,
        seed=54,
        **_LATENT,
        q_lora_rank=32,
        num_experts_per_tok=3,
        rope_parameters={**_YARN_ROPE, "mscale": 0.8, "mscale_all_dim": 0.6, "llama_4_scaling_beta": 0.5},
    ),
    **DENSE_FAMILIES,
    **HYBRID_FAMILIES,
    **SPARSE_FAMILIES,
}
