"""Scales: what is multiplied and capped, as the files say and where they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.families.scales import QueryScale, Scales
from runtime.checkpoint.open import open_checkpoint
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("family", "scales"),
    [
        ("gemma", Scales(32**-0.5, embedding=8.0)),
        ("gemma2", Scales(24**-0.5, embedding=8.0, attention_softcap=3.0, logits_softcap=4.0)),
        ("gemma3", Scales(24**-0.5, embedding=8.0)),
        ("granite", Scales(0.125, embedding=12.0, residual=0.22, logits=0.5)),
        ("cohere", Scales(0.25, logits=0.25)),
        ("falcon-h1-bias", Scales(0.25 * 0.7, embedding=3.0, mlp=0.6, gate=0.8, logits=0.5)),
        ("ministral3", Scales(0.25, query=QueryScale(0.5, length=64))),
    ],
)
def test_scales(family: str, scales: Scales, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    assert open_checkpoint(tmp_path).config.scales == scales


@pytest.mark.parametrize(
    ("architecture", "scales"),
    [
        ("Gemma2ForCausalLM", Scales(1 / 16, embedding=8.0, attention_softcap=50.0, logits_softcap=30.0)),
        ("Gemma3ForCausalLM", Scales(1 / 16, embedding=8.0)),
        ("GraniteForCausalLM", Scales(1.0)),
        ("CohereForCausalLM", Scales(2**-0.5, logits=0.0625)),
        ("Ministral3ForCausalLM", Scales(128**-0.5, query=QueryScale(0.1, length=16_384))),
    ],
)
def test_scales_that_files_leave_out(architecture: str, scales: Scales) -> None:
    """As transformers' configuration classes have them."""
    sizes = {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    sizes |= {"num_attention_heads": 32, "max_position_embeddings": 128}
    assert parse_config({**sizes, "architectures": [architecture]}).scales == scales
