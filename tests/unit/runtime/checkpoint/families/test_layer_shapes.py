"""Layers of several sizes, as the files of Gemma 3n and 4 describe them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.layer_config import LayerShape
from runtime.errors import CheckpointError
from tests.rows import every_row

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig

FULL, SLIDING = "full_attention", "sliding_attention"
# As the published files say it; transformers 5 writes `per_layer_config` in the place of the two "global" keys.
GEMMA4: dict[str, Any] = {
    "architectures": ["Gemma4ForCausalLM"],
    "vocab_size": 10,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 5,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "global_head_dim": 48,
    "num_global_key_value_heads": 2,
    "hidden_size_per_layer_input": 0,
    "layer_types": [SLIDING, FULL, SLIDING, SLIDING, FULL],
}
SMALL, LARGE = LayerShape(8, 4, 16, 96), LayerShape(8, 4, 48, 96)


def shapes(**settings: Any) -> tuple[LayerShape, ...]:  # noqa: ANN401
    return parse_config({**GEMMA4, **settings}).layer_shapes


def test_layers_that_see_everything_have_other_heads() -> None:
    assert shapes() == (SMALL, LARGE, SMALL, SMALL, LARGE)
    fewer = LayerShape(8, 2, 48, 96, values_are_keys=True)
    assert shapes(attention_k_eq_v=True) == (SMALL, fewer, SMALL, SMALL, fewer)
    own = {"head_dim": 48, "num_key_value_heads": 2}
    by_layer = {**dict.fromkeys(("global_head_dim", "num_global_key_value_heads")), "attention_k_eq_v": True}
    assert shapes(**by_layer, per_layer_config={"1": own, "4": own}) == shapes(attention_k_eq_v=True)


def test_the_last_layers_read_the_kv_of_the_last_of_their_type() -> None:
    *_, third, fourth, fifth = shapes(num_kv_shared_layers=2, use_double_wide_mlp=True)
    assert third == SMALL
    assert fourth == LayerShape(8, 4, 16, 192, kv_layer=2)
    assert fifth == LayerShape(8, 4, 48, 192, kv_layer=1)


def test_a_piece_of_kv_fits_into_all_layers_and_shared_kv_has_none() -> None:
    config = parse_config({**GEMMA4, "attention_k_eq_v": True, "num_kv_shared_layers": 2})
    assert config.kv_shape == (2, 2, 16)
    assert config.kv_pieces == (2, 3, 2, 0, 0)


@pytest.mark.parametrize(
    ("settings", "culprit"),
    [
        ({"layer_types": [FULL, SLIDING, FULL, FULL, SLIDING]}, "layer_types"),
        ({"num_kv_shared_layers": 4}, "num_kv_shared_layers 4"),
        ({"num_kv_shared_layers": 6}, "num_kv_shared_layers 6"),
        ({"global_head_dim": 47}, "head_dim 47"),
        ({"attention_k_eq_v": True, "num_global_key_value_heads": 3}, "num_key_value_heads 3"),
        ({"per_layer_config": {"1": {"head_dim": 48}}}, "per_layer_config"),
        ({"per_layer_config": {"1": {"hidden_size": 48}, "4": {"hidden_size": 48}}}, "per_layer_config"),
        ({"per_layer_config": [48]}, "per_layer_config"),
        ({"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 9}, "vocab_size_per_layer_input 9"),
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
    ],
)
def test_refusals_name_the_key(settings: dict[str, Any], culprit: str) -> None:
    with pytest.raises(CheckpointError, match=culprit):
        shapes(**settings)


GEMMA3N: dict[str, Any] = {  # as the published files of Gemma 3n have it, with other sizes
    "architectures": ["Gemma3nForConditionalGeneration"],
    "model_type": "gemma3n",
    "text_config": {
        "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0, 0.0],
        "altup_active_idx": 0,
        "altup_correct_scale": True,
        "altup_num_inputs": 4,
        "head_dim": 16,
        "hidden_size": 64,
        "hidden_size_per_layer_input": 8,
        "intermediate_size": [96, 96, 96, 96, 48],
        "laurel_rank": 12,
        "layer_types": [SLIDING, FULL, SLIDING, SLIDING, FULL],
        "model_type": "gemma3n_text",
        "num_attention_heads": 8,
        "num_hidden_layers": 5,
        "num_key_value_heads": 2,
        "num_kv_shared_layers": 2,
        "rope_local_base_freq": 10000.0,
        "rope_theta": 1000000.0,
        "vocab_size": 20,
        "vocab_size_per_layer_input": 10,
    },
}


def _gemma3n(**settings: Any) -> ModelConfig:  # noqa: ANN401
    return parse_config({**GEMMA3N, "text_config": {**GEMMA3N["text_config"], **settings}})


def test_each_layer_of_gemma3n_has_an_mlp_of_its_own_width() -> None:
    config, sparse, plain = _gemma3n(), LayerShape(8, 2, 16, 96, mlp_sparsity=0.95), LayerShape(8, 2, 16, 96)
    shared = replace(plain, kv_layer=2), LayerShape(8, 2, 16, 48, kv_layer=1)
    assert config.layer_shapes == (sparse, sparse, plain, *shared)
    assert (config.intermediate_size, config.kv_pieces) == (96, (1, 1, 1, 0, 0))
    assert (config.row_shape, config.laurel_rank) == ((4, 64), 12)
    assert (config.layer_input_size, config.layer_input_vocab) == (8, 10)
    assert [rope and rope.theta for rope in config.ropes[:2]] == [10_000.0, 1_000_000.0]
    unsaid = _gemma3n(
        activation_sparsity_pattern=None, intermediate_size=96, num_hidden_layers=12, layer_types=None
    ).layer_shapes
    assert [shape.mlp_sparsity for shape in unsaid] == [0.95] * 10 + [0.0] * 2


@every_row(
    "settings, culprit",
    [
        ({"intermediate_size": [96]}, "intermediate_size"),
        ({"intermediate_size": []}, "intermediate_size"),
        ({"intermediate_size": [96, 96, 96, 96, "48"]}, "intermediate_size '48'"),
        ({"activation_sparsity_pattern": [0.95]}, "activation_sparsity_pattern"),
        ({"activation_sparsity_pattern": 1.0}, "activation_sparsity_pattern"),
        ({"num_kv_shared_layers": 4}, "num_kv_shared_layers 4"),
        ({"altup_active_idx": 1}, "altup_active_idx 1"),
        ({"altup_correct_scale": False}, "altup_correct_scale False"),
        ({"altup_num_inputs": 1}, "altup_num_inputs 1"),
        ({"hidden_size_per_layer_input": 0}, "hidden_size_per_layer_input 0"),
        ({"laurel_rank": 0}, "laurel_rank 0"),
    ],
)
def test_what_is_not_computed_of_gemma3n_is_refused_by_its_key(settings: dict[str, Any], culprit: str) -> None:
    with pytest.raises(CheckpointError, match=culprit):
        _gemma3n(**settings)
