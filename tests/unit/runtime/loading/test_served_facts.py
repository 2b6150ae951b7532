"""What is told of a model's files is what is in them."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from runtime.checkpoint.open import open_checkpoint
from runtime.loading.served import facts_of
from tests.models.checkpoints import FAMILIES


def test_the_facts_are_those_of_the_files(tmp_path: Path) -> None:
    FAMILIES["qwen2"](tmp_path)
    facts = facts_of(open_checkpoint(tmp_path))
    stored = [tensor for file in tmp_path.glob("*.safetensors") for tensor in load_file(file).values()]
    assert (facts.family, facts.format) == ("qwen2", "safetensors")
    assert facts.form == {torch.float32: "F32", torch.bfloat16: "BF16"}[stored[0].dtype]
    assert facts.parameters == sum(tensor.numel() for tensor in stored)
    assert facts.num_bytes == sum(tensor.nbytes for tensor in stored)
    assert facts.num_layers > 0
    assert facts.num_heads % facts.num_kv_heads == 0
    assert facts.trained_context == open_checkpoint(tmp_path).config.context_length
