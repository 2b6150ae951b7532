"""A file of random weights that a hybrid can be served from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gguf import GGUFReader

from bench.engine.models.random_gguf import TYPES, Hybrid, write_random
from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.nn.weights import load_weights
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf

SMALL = Hybrid(
    layers=8, hidden=64, intermediate=96, heads=2, kv_heads=1, head_dim=32, rotated=32, linear_heads=2, linear_dim=32
)


@pytest.mark.parametrize("kind", TYPES)
def test_it_is_a_hybrid_that_cede_computes_with_the_other_files_vocabulary(kind: str, tmp_path: Path) -> None:
    GGUF_FAMILIES["llama"](tmp_path)
    vocabulary = write_gguf(tmp_path, tmp_path / "other.gguf")
    path = tmp_path / "m.gguf"
    write_random(path, vocabulary, TYPES[kind], SMALL)
    checkpoint = GgufCheckpoint(path)
    assert [layer is None for layer in checkpoint.config.recurrent] == [False, False, False, True] * 2
    assert len(load_weights(checkpoint, device="cpu", dtype=torch.float32).layers) == SMALL.layers
    written, copied = (
        {name: field.contents() for name, field in GGUFReader(file).fields.items() if name.startswith("tokenizer.")}
        for file in (path, vocabulary)
    )
    assert written == copied
