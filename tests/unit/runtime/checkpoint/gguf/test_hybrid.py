"""Files of models with recurrent layers: what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.errors import CheckpointError
from tests.models.gguf.edited import edited
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf

if TYPE_CHECKING:
    from pathlib import Path

_KV_HEADS = "lfm2.attention.head_count_kv"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("lfm2", {_KV_HEADS: None}, f"{_KV_HEADS} is missing"),
    ("lfm2", {_KV_HEADS: 2}, f"{_KV_HEADS} is 2, and should be a list of type int"),
    ("lfm2", {_KV_HEADS: [0, 2]}, f"{_KV_HEADS} has 2 entries for 3 layers"),
    ("lfm2", {_KV_HEADS: [1, 2, 0]}, f"{_KV_HEADS} is not the same number in all layers that attend"),
    ("lfm2", {_KV_HEADS: [0, 0, 0]}, f"{_KV_HEADS} is not the same number in all layers that attend"),
    ("lfm2", {"lfm2.attention.sliding_window": 8}, "lfm2.attention.sliding_window is not a key that cede knows"),
    ("lfm2-moe", {"lfm2moe.expert_gating_func": 1}, "lfm2moe.expert_gating_func is not supported, only 2 is"),
    ("lfm2-moe", {"lfm2moe.expert_weights_scale": 2.0}, "lfm2moe.expert_weights_scale is not a key that cede knows"),
]


@pytest.mark.parametrize(("family", "values", "message"), REFUSED)
def test_refusals_name_the_key(family: str, values: dict[str, Any], message: str, tmp_path: Path) -> None:
    GGUF_FAMILIES[family](tmp_path)
    changed = edited(write_gguf(tmp_path, tmp_path / "m.gguf"), values)
    with pytest.raises(CheckpointError, match=message):
        _ = GgufCheckpoint(changed).config
