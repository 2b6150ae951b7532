"""Mistral's dense models, and the file's form of those that read images, too."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.layer_kinds import all_sliding
from runtime.checkpoint.families.layout import text_part
from runtime.checkpoint.families.scales import ministral3_scales

_MISTRAL = Family(
    "mistral",
    layer_types=all_sliding,
    defaults={
        "num_key_value_heads": 8,
        "sliding_window": 4096,
        "use_sliding_window": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)

MISTRAL_FAMILIES: dict[str, Family] = {
    "MistralForCausalLM": _MISTRAL,
    "MinistralForCausalLM": replace(_MISTRAL, model_type="ministral", reads_layer_types=True),
    "Ministral3ForCausalLM": replace(
        _MISTRAL,
        model_type="ministral3",
        scales=ministral3_scales,
        defaults={
            **_MISTRAL.defaults,
            "head_dim": 128,
            "rms_norm_eps": 1e-5,
            "rope_theta": 1_000_000.0,
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 16.0,
                "original_max_position_embeddings": 16_384,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1,
            },
            "sliding_window": None,
        },
    ),
    "Mistral3ForConditionalGeneration": Family(
        "mistral3", text_config="text_config", text_families=("mistral", "ministral3"), layout=(text_part,)
    ),
}
