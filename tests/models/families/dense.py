"""Small random checkpoints of the dense families that depart from Llama in more than a bias, a window or a norm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from transformers import (
    Cohere2Config,
    Cohere2ForCausalLM,
    CohereConfig,
    CohereForCausalLM,
    Ernie4_5Config,
    Ernie4_5ForCausalLM,
    Exaone4Config,
    Exaone4ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    Gemma3nForCausalLM,
    Gemma3nTextConfig,
    Gemma3TextConfig,
    Gemma4Config,
    Gemma4ForCausalLM,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    Gemma4UnifiedForCausalLM,
    Gemma4UnifiedTextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    Glm4Config,
    Glm4ForCausalLM,
    GlmConfig,
    GlmForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    HunYuanDenseV1Config,
    HunYuanDenseV1ForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    MinistralConfig,
    MinistralForCausalLM,
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    Olmo2Config,
    Olmo2ForCausalLM,
    Olmo3Config,
    Olmo3ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    SeedOssConfig,
    SeedOssForCausalLM,
)

from tests.models.families.writing import VOCAB_SIZE, write_checkpoint

_FULL_AT_THE_ENDS = ["full_attention", "sliding_attention", "full_attention"]

_gemma = partial(write_checkpoint, model_class=GemmaForCausalLM, config_class=GemmaConfig, embedding=0.05, head_dim=32)
_gemma2 = partial(
    write_checkpoint,
    model_class=Gemma2ForCausalLM,
    config_class=Gemma2Config,
    embedding=0.05,
    head_dim=32,
    query_pre_attn_scalar=24,
    sliding_window=16,
    attn_logit_softcapping=3.0,  # scores are larger, so that a forgotten cap changes the text
    final_logit_softcapping=4.0,
)
_gemma3 = partial(
    write_checkpoint,
    model_class=Gemma3ForCausalLM,
    config_class=Gemma3TextConfig,
    embedding=0.05,
    head_dim=32,
    query_pre_attn_scalar=24,
    sliding_window=16,
)
_gemma3n = partial(
    write_checkpoint,
    model_class=Gemma3nForCausalLM,
    config_class=Gemma3nTextConfig,
    embedding=0.05,
    head_dim=16,
    sliding_window=16,
    final_logit_softcapping=4.0,
    num_hidden_layers=4,
    layer_types=["sliding_attention", "full_attention"] * 2,
    num_kv_shared_layers=2,
    hidden_size_per_layer_input=8,
    vocab_size_per_layer_input=200,  # tokens behind these are given what the first is
    pad_token_id=0,
    laurel_rank=12,
    activation_sparsity_pattern=[0.9, 0.6, 0.0, 0.0],
)
_gemma4 = partial(
    write_checkpoint,
    model_class=Gemma4ForCausalLM,
    config_class=Gemma4TextConfig,
    embedding=0.05,
    head_dim=16,
    global_head_dim=32,
    hidden_size_per_layer_input=0,
    sliding_window=16,
    final_logit_softcapping=4.0,
    layer_types=_FULL_AT_THE_ENDS,
)

_phi3 = partial(write_checkpoint, model_class=Phi3ForCausalLM, config_class=Phi3Config)
_granite = partial(
    write_checkpoint,
    model_class=GraniteForCausalLM,
    config_class=GraniteConfig,
    embedding=0.05,
    embedding_multiplier=12.0,
    residual_multiplier=0.22,
    attention_multiplier=0.125,
    logits_scaling=2.0,
)
_olmo2 = partial(write_checkpoint, model_class=Olmo2ForCausalLM, config_class=Olmo2Config)
_olmo3 = partial(write_checkpoint, model_class=Olmo3ForCausalLM, config_class=Olmo3Config, sliding_window=16)
_ernie = partial(write_checkpoint, model_class=Ernie4_5ForCausalLM, config_class=Ernie4_5Config, head_dim=24)
_seed_oss = partial(write_checkpoint, model_class=SeedOssForCausalLM, config_class=SeedOssConfig, head_dim=24)
_glm = partial(write_checkpoint, model_class=GlmForCausalLM, config_class=GlmConfig, head_dim=24)
_glm4 = partial(write_checkpoint, model_class=Glm4ForCausalLM, config_class=Glm4Config, head_dim=16)
_cohere = partial(write_checkpoint, model_class=CohereForCausalLM, config_class=CohereConfig, logit_scale=0.25)
_cohere2 = partial(
    write_checkpoint,
    model_class=Cohere2ForCausalLM,
    config_class=Cohere2Config,
    logit_scale=0.25,
    sliding_window=16,
    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
)

_exaone4 = partial(write_checkpoint, model_class=Exaone4ForCausalLM, config_class=Exaone4Config)
_ministral = partial(write_checkpoint, model_class=MinistralForCausalLM, config_class=MinistralConfig, head_dim=32)
_ministral3 = partial(write_checkpoint, model_class=Ministral3ForCausalLM, config_class=Ministral3Config, head_dim=16)

_hunyuan = partial(
    write_checkpoint, model_class=HunYuanDenseV1ForCausalLM, config_class=HunYuanDenseV1Config, head_dim=24
)


def _ministral3_with_images_config(**settings: Any) -> Mistral3Config:  # noqa: ANN401
    """Likewise."""
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    text, sizes = Ministral3Config(**settings).to_dict(), {"image_size": 28, "patch_size": 14, "head_dim": 16}
    ties = {"tie_word_embeddings": text["tie_word_embeddings"]}
    return Mistral3Config(text_config=text, vision_config={**vision, **sizes}, dtype="float32", **ties)


def _gemma3_with_images_config(**settings: Any) -> Gemma3Config:  # noqa: ANN401
    """A model that reads images too, of which cede serves the text part."""
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes = {"image_size": 28, "patch_size": 14}
    text = Gemma3TextConfig(**settings).to_dict()
    return Gemma3Config(text_config=text, vision_config={**vision, **sizes}, mm_tokens_per_image=4, dtype="float32")


def _gemma4_with_images_config(**settings: Any) -> Gemma4Config:  # noqa: ANN401
    """Likewise."""
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = Gemma4TextConfig(**settings).to_dict()
    return Gemma4Config(
        text_config=text, vision_config={**vision, "num_key_value_heads": 2, "head_dim": 16}, dtype="float32"
    )


_LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
_YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
_NTK_ROPE = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 1.0, "alpha": 50.0}
# It grows with the position early, and much.
_SCALED_QUERIES = {**_YARN_ROPE, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5}
_DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
_FULL_IN_THE_MIDDLE = ["sliding_attention", "full_attention", "sliding_attention"]

_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
    "long_factor": [1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0],
}

DENSE_FAMILIES: dict[str, Callable[..., None]] = {
    "gemma3": partial(_gemma3, seed=20, layer_types=_FULL_IN_THE_MIDDLE),
    "gemma3-rope": partial(
        _gemma3,
        seed=21,
        num_key_value_heads=1,
        sliding_window_pattern=2,
        rope_parameters={"sliding_attention": _DEFAULT_ROPE, "full_attention": _LINEAR_ROPE},
    ),
    "gemma3-images": partial(
        _gemma3,
        model_class=Gemma3ForConditionalGeneration,
        config_class=_gemma3_with_images_config,
        seed=22,
        sliding_window_pattern=3,
    ),
    "gemma3n": partial(_gemma3n, seed=50),
    "gemma3n-widths": partial(
        _gemma3n,
        seed=51,
        vocab_size_per_layer_input=VOCAB_SIZE,
        altup_num_inputs=3,
        num_kv_shared_layers=0,
        intermediate_size=[96, 64, 96, 80],
        tie_word_embeddings=False,
    ),
    "gemma4": partial(_gemma4, seed=50),
    "gemma4-shared-values": partial(
        _gemma4,
        seed=51,
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
        num_key_value_heads=4,
    ),
    "gemma4-experts": partial(
        _gemma4,
        seed=54,
        enable_moe_block=True,
        num_experts=8,
        top_k_experts=3,
        moe_intermediate_size=32,
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
    ),
    "gemma4-layer-inputs": partial(
        _gemma4,
        seed=55,
        num_hidden_layers=6,
        layer_types=["sliding_attention", "full_attention"] * 3,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=VOCAB_SIZE + 4,
        num_kv_shared_layers=3,
        use_double_wide_mlp=True,
    ),
    "gemma4-images": partial(
        _gemma4,
        model_class=Gemma4ForConditionalGeneration,
        config_class=_gemma4_with_images_config,
        seed=52,
    ),
    "gemma4-unified": partial(
        _gemma4, model_class=Gemma4UnifiedForCausalLM, config_class=Gemma4UnifiedTextConfig, seed=53
    ),
    "gemma": partial(_gemma, seed=30),
    "gemma2": partial(_gemma2, seed=31),
    "phi3": partial(_phi3, seed=32, sliding_window=16),
    "phi3-long": partial(_phi3, seed=33, original_max_position_embeddings=16, rope_parameters=_LONGROPE),
    "phi3-partial": partial(_phi3, seed=34, num_attention_heads=2, partial_rotary_factor=0.75),
    "granite": partial(_granite, seed=35, attention_bias=True, mlp_bias=True),
    "olmo2": partial(_olmo2, seed=36),
    "olmo3": partial(_olmo3, seed=37, layer_types=_FULL_IN_THE_MIDDLE),
    "olmo3-yarn": partial(
        _olmo3, seed=45, rope_parameters={"sliding_attention": _DEFAULT_ROPE, "full_attention": _YARN_ROPE}
    ),
    "ernie": partial(_ernie, seed=46, use_bias=True, tie_word_embeddings=False),
    "seed-oss": partial(_seed_oss, seed=47, attention_out_bias=True),
    "ministral": partial(_ministral, seed=48, sliding_window=16, layer_types=_FULL_IN_THE_MIDDLE),
    "ministral3": partial(_ministral3, seed=49, rope_parameters=_SCALED_QUERIES),
    "ministral3-images": partial(
        _ministral3,
        model_class=Mistral3ForConditionalGeneration,
        config_class=_ministral3_with_images_config,
        seed=50,
        rope_parameters=_SCALED_QUERIES,
        tie_word_embeddings=True,
        embedding=0.05,
    ),
    "hunyuan": partial(_hunyuan, seed=51, attention_bias=True, rope_parameters=_NTK_ROPE),
    "exaone4": partial(_exaone4, seed=52, sliding_window=16, layer_types=_FULL_IN_THE_MIDDLE),
    "exaone4-full": partial(
        _exaone4,
        seed=53,
        sliding_window=None,
        layer_types=["full_attention"] * 3,
        tie_word_embeddings=True,
        embedding=0.1,
    ),
    "glm": partial(_glm, seed=39),
    "glm4": partial(_glm4, seed=40, attention_bias=False, partial_rotary_factor=0.5),
    "cohere": partial(_cohere, seed=41, tie_word_embeddings=False),
    "cohere-qk-norm": partial(_cohere, seed=42, embedding=0.1, use_qk_norm=True, attention_bias=True),
    "cohere2": partial(_cohere2, seed=43, tie_word_embeddings=False),
}
