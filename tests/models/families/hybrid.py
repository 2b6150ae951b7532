"""Small random checkpoints of the families of which most layers are recurrent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from transformers import (
    FalconH1Config,
    FalconH1ForCausalLM,
    GraniteMoeHybridConfig,
    GraniteMoeHybridForCausalLM,
    KimiLinearConfig,
    KimiLinearForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    Lfm2MoeConfig,
    Lfm2MoeForCausalLM,
    NemotronHConfig,
    NemotronHForCausalLM,
    OlmoHybridConfig,
    OlmoHybridForCausalLM,
    Qwen3_5Config,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from tests.models.families.writing import write_checkpoint

_lfm2 = partial(
    write_checkpoint,
    model_class=Lfm2ForCausalLM,
    config_class=Lfm2Config,
    embedding=0.1,
    block_multiple_of=32,
    block_ffn_dim_multiplier=1.5,
    layer_types=["conv", "full_attention", "conv"],
)

_LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
}
_EXPERTS: dict[str, Any] = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}
_qwen3_next = partial(
    write_checkpoint, model_class=Qwen3NextForCausalLM, config_class=Qwen3NextConfig, **_LINEAR, **_EXPERTS
)
_qwen3_5 = partial(write_checkpoint, model_class=Qwen3_5ForCausalLM, config_class=Qwen3_5TextConfig, **_LINEAR)
_qwen3_5_moe = partial(
    write_checkpoint,
    model_class=Qwen3_5MoeForCausalLM,
    config_class=Qwen3_5MoeTextConfig,
    **_LINEAR,
    **_EXPERTS,
)

_granite_hybrid = partial(
    write_checkpoint,
    model_class=GraniteMoeHybridForCausalLM,
    config_class=GraniteMoeHybridConfig,
    embedding=0.1,
    embedding_multiplier=3.0,
    residual_multiplier=0.5,
    attention_multiplier=0.2,
    logits_scaling=2.0,
    shared_intermediate_size=96,
    layer_types=["linear_attention", "full_attention", "linear_attention"],
    mamba_n_heads=8,
    mamba_n_groups=2,
    mamba_d_state=24,
)

_falcon = partial(
    write_checkpoint,
    model_class=FalconH1ForCausalLM,
    config_class=FalconH1Config,
    embedding=0.1,
    embedding_multiplier=3.0,
    lm_head_multiplier=0.5,
    key_multiplier=0.7,
    attention_out_multiplier=0.8,
    ssm_out_multiplier=0.6,
    ssm_multipliers=[0.9, 0.8, 1.2, 1.1, 0.7],
    mlp_multipliers=[0.8, 0.6],
    mamba_d_ssm=96,
    mamba_n_heads=8,
    mamba_n_groups=2,
    mamba_d_state=24,
)
_kimi = partial(
    write_checkpoint,
    model_class=KimiLinearForCausalLM,
    config_class=KimiLinearConfig,
    num_key_value_heads=4,
    kv_lora_rank=48,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=20,
    num_experts=6,
    num_experts_per_token=2,
    moe_intermediate_size=32,
)
_nemotron = partial(
    write_checkpoint,
    model_class=NemotronHForCausalLM,
    config_class=NemotronHConfig,
    head_dim=16,
    mamba_num_heads=8,
    mamba_head_dim=12,
    n_groups=2,
    ssm_state_size=24,
)
_olmo_hybrid = partial(
    write_checkpoint,
    model_class=OlmoHybridForCausalLM,
    config_class=OlmoHybridConfig,
    layer_types=["linear_attention", "full_attention", "linear_attention"],
)


def _with_images(config_class: type[Any], text_class: type[Any], **settings: Any) -> Any:  # noqa: ANN401
    """A model that reads images, too, of which cede serves the text part."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "depth": 1, "num_heads": 2, "out_hidden_size": 64}
    vision = {**sizes, "patch_size": 4, "num_position_embeddings": 16}
    return config_class(text_config=text_class(**settings).to_dict(), vision_config=vision, dtype="float32")


HYBRID_FAMILIES: dict[str, Callable[..., None]] = {
    "lfm2": partial(_lfm2, seed=50),
    "lfm2-bias": partial(
        _lfm2, seed=51, conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False, tie_word_embeddings=False
    ),
    "lfm2-moe": partial(
        _lfm2,
        seed=56,
        model_class=Lfm2MoeForCausalLM,
        config_class=Lfm2MoeConfig,
        num_dense_layers=1,
        num_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        routed_scaling_factor=1.5,
    ),
    "falcon-h1": partial(
        _falcon, seed=63, head_dim=32, attention_in_multiplier=0.9, ssm_in_multiplier=1.25, mamba_rms_norm=True
    ),
    "falcon-h1-bias": partial(
        _falcon,
        seed=64,
        attention_bias=True,
        mlp_bias=True,
        mamba_proj_bias=True,
        projectors_bias=True,
        mamba_conv_bias=False,
    ),
    "falcon-h1-gate": partial(_falcon, seed=65, mamba_d_ssm=None, mamba_rms_norm=True, mamba_norm_before_gate=False),
    "granite-hybrid": partial(
        _granite_hybrid, seed=57, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope"
    ),
    "granite-hybrid-moe": partial(
        _granite_hybrid, seed=58, num_local_experts=5, mamba_proj_bias=True, attention_bias=True, mamba_n_groups=1
    ),
    "kimi-linear": partial(
        _kimi,
        seed=63,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        linear_num_heads=3,
        linear_head_dim=16,
    ),
    "kimi-linear-lists": partial(
        _kimi,
        seed=64,
        linear_attn_config={
            "full_attn_layers": [1],
            "kda_layers": [2, 3],
            "num_heads": 2,
            "head_dim": 24,
            "short_conv_kernel_size": 3,
        },
        q_lora_rank=32,
        attention_bias=True,
        num_expert_group=2,
        num_shared_experts=2,
        first_k_dense_replace=2,
    ),
    "nemotron-h": partial(
        _nemotron,
        seed=61,
        layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"],
        mlp_bias=True,
        use_bias=True,
    ),
    "nemotron-h-moe": partial(
        _nemotron,
        seed=62,
        layers_block_type=["linear_attention", "moe", "full_attention", "moe", "linear_attention"],
        n_routed_experts=6,
        n_group=2,
        moe_intermediate_size=32,
        moe_shared_expert_intermediate_size=48,
        routed_scaling_factor=1.5,
        use_conv_bias=False,
    ),
    "nemotron-h-latent": partial(
        _nemotron,
        seed=65,
        layers_block_type=["linear_attention", "moe", "full_attention"],
        n_routed_experts=6,
        moe_intermediate_size=32,
        moe_latent_size=24,
        moe_shared_expert_intermediate_size=48,
    ),
    "olmo-hybrid": partial(_olmo_hybrid, seed=59, rope_parameters={"rope_type": "default", "rope_theta": None}),
    "olmo-hybrid-rope": partial(
        _olmo_hybrid,
        seed=60,
        attention_bias=True,
        linear_allow_neg_eigval=False,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
    ),
    "qwen3-next": partial(_qwen3_next, seed=52, mlp_only_layers=[1], attention_bias=True),
    "qwen3.5": partial(_qwen3_5, seed=53, linear_conv_kernel_dim=3, embedding=0.1, tie_word_embeddings=True),
    "qwen3.5-images": partial(
        _qwen3_5,
        seed=54,
        model_class=Qwen3_5ForConditionalGeneration,
        config_class=partial(_with_images, Qwen3_5Config, Qwen3_5TextConfig),
    ),
    "qwen3.5-moe": partial(_qwen3_5_moe, seed=57),
}
