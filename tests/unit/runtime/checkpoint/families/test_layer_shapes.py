"""Layers of several sizes, as Gemma 4's files describe them."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.layer_shape import LayerShape
from runtime.errors import CheckpointError

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
