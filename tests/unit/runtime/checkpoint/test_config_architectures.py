"""Which of the architectures that people serve on their own machines cede serves, and which it refuses by name.

They are the decoders that transformers and llama.cpp's conversion both know, without those that nobody serves any more,
and the few that only transformers knows and that are asked for.
"""

from __future__ import annotations

from typing import Any

import pytest
from transformers import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.families.table import FAMILIES
from runtime.errors import CheckpointError
from tests.rows import every_row

NAMES: dict[str, str] = {**MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, **MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
NAMES |= {name: MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[name] for name in ("qwen3_5", "qwen3_5_moe")}  # as published

# By transformers' `model_type`, a maker's on a line.
SERVED = """
    cohere cohere2
    deepseek_v2 deepseek_v3
    ernie4_5 ernie4_5_moe
    exaone4
    falcon_h1
    gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text gemma4 gemma4_text gemma4_unified gemma4_unified_text
    glm glm4 glm4_moe glm4_moe_lite
    gpt_oss
    granite granitemoe granitemoehybrid granitemoeshared
    hunyuan_v1_dense hunyuan_v1_moe
    kimi_linear
    laguna
    lfm2 lfm2_moe
    llama
    minimax_m2
    ministral ministral3 mistral mistral3 mistral4 mixtral
    nemotron_h
    olmo2 olmo3 olmo_hybrid olmoe
    phi3
    qwen2 qwen3 qwen3_moe qwen3_next
    qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text
    seed_oss
    smollm3
""".split()
# Layers whose state is not keys and values, but that of a convolution, a recurrence, or linear attention.
HYBRIDS = """
    bamba
    jamba
    mamba2
    minimax
    recurrent_gemma
    zamba2
""".split()
OTHERS = """
    afmoe arcee
    apertus
    bitnet
    cohere2_moe
    deepseek_v32 deepseek_v4
    dots1
    falcon
    glm_moe_dsa
    gpt2
    llama4 llama4_text
    mimo_v2_flash
    nemotron
    olmo
    phi phimoe
    qwen2_moe
    solar_open
    stablelm
    starcoder2
""".split()

WITHOUT_DEFAULT: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "glm4_moe": {"head_dim": 128},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 16},
}


def _config(model_type: str) -> dict[str, Any]:
    """The config.json of a model of default values."""
    settings: dict[str, Any] = CONFIG_MAPPING[model_type](**WITHOUT_DEFAULT.get(model_type, {})).to_dict()
    return {**settings, "architectures": [_architecture(model_type)]}


def _architecture(model_type: str) -> str:
    return NAMES[model_type]


@every_row("model_type", SERVED)
def test_these_are_served(model_type: str) -> None:
    assert parse_config(_config(model_type)).architecture == _architecture(model_type)


@every_row("model_type", [*HYBRIDS, *OTHERS])
def test_these_are_refused_by_name(model_type: str) -> None:
    with pytest.raises(CheckpointError, match=f"'{_architecture(model_type)}'.* is not supported"):
        parse_config(_config(model_type))


def test_every_family_is_among_them() -> None:
    families = {family.model_type for family in FAMILIES.values() if not family.assists}
    assert families - {"mimo"} == set(SERVED)  # which transformers does not have


def test_a_refusal_tells_what_is_near() -> None:
    near = "unlike Qwen2ForCausalLM, Qwen3ForCausalLM, .*; the README"
    with pytest.raises(CheckpointError, match=near):
        parse_config({"architectures": ["Qwen2MoeForCausalLM"]})
