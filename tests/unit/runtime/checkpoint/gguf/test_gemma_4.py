"""Keys of Gemma 4's files that contradict one another, and what stands for each layer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.errors import CheckpointError
from tests.models.gguf.edited import edited
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf

if TYPE_CHECKING:
    from pathlib import Path

SLIDES = [True, False] * 3  # of six layers, the last three read the KV of others


@pytest.fixture
def path(tmp_path: Path) -> Path:
    GGUF_FAMILIES["gemma4-layer-inputs"](tmp_path)
    return write_gguf(tmp_path, tmp_path / "m.gguf")


def test_a_value_for_all_layers_is_one_for_each(path: Path) -> None:
    values = {"gemma4.attention.head_count_kv": 2, "gemma4.feed_forward_length": 96}
    config = GgufCheckpoint(edited(path, values)).config
    assert {(shape.num_kv_heads, shape.intermediate_size) for shape in config.layer_shapes} == {(2, 96)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention.sliding_window_pattern", SLIDES[:5]),
        ("attention.sliding_window_pattern", [False] * 6),
        ("attention.head_count_kv", [2, 2, 1, 2, 2, 2]),
        ("attention.head_count_kv", [2] * 5),
        ("attention.value_length_swa", 8),
        ("rope.dimension_count_swa", 8),
        ("rope.dimension_count", 16),
        ("feed_forward_length", [96, 96, 96, 192, 192, 96]),
        ("feed_forward_length", [96, 96, 96, 288, 288, 288]),
    ],
)
def test_refusals_name_the_key(path: Path, key: str, value: Any) -> None:  # noqa: ANN401
    with pytest.raises(CheckpointError, match=re.escape(f"gemma4.{key} ")):
        _ = GgufCheckpoint(edited(path, {f"gemma4.{key}": value})).config


@pytest.mark.parametrize("factors", [None, [1.0, 2.0, *[1e30] * 14], [1e30, 1.0, *[1e30] * 14]])
def test_factors_that_do_not_leave_the_last_pairs_alone_are_refused(path: Path, factors: list[float] | None) -> None:
    array = None if factors is None else np.array(factors, np.float32)
    with pytest.raises(CheckpointError, match=r"rope_freqs\.weight is"):
        _ = GgufCheckpoint(edited(path, tensors={"rope_freqs.weight": array})).config
