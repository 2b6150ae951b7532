"""Metadata as config.json and generation_config.json, beside those of the folders that the files were made of."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.nn.layers.rope import frequencies
from tests.models.gguf.edited import edited
from tests.models.gguf.files import GGUF_FAMILIES, llama3_factors, write_gguf

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.layer_config import RopeConfig

# Those of which files do not say which of the two they are: both are computed alike.
_SAME = {
    "MistralForCausalLM": "LlamaForCausalLM",
    "Glm4MoeLiteForCausalLM": "DeepseekV3ForCausalLM",
    "Qwen3_5ForConditionalGeneration": "Qwen3_5ForCausalLM",
}

HEAD_DIM = 16  # of the checkpoint "llama"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    GGUF_FAMILIES["llama"](tmp_path)
    return write_gguf(tmp_path, tmp_path / "m.gguf")


def _config(path: Path, values: dict[str, Any] | None = None, tensors: dict[str, Any] | None = None) -> ModelConfig:
    return GgufCheckpoint(edited(path, values, tensors)).config


@pytest.mark.parametrize("family", GGUF_FAMILIES)
def test_the_model_is_that_of_hugging_face(family: str, tmp_path: Path) -> None:
    GGUF_FAMILIES[family](tmp_path)
    expected = open_checkpoint(tmp_path).config
    found = GgufCheckpoint(write_gguf(tmp_path, tmp_path / "m.gguf")).config
    architecture = _SAME.get(expected.architecture, expected.architecture)
    assert replace(found, ropes=(), eos_token_ids=()) == replace(
        expected, ropes=(), eos_token_ids=(), architecture=architecture
    )
    assert set(found.eos_token_ids) == set(expected.eos_token_ids)
    for ours, theirs in zip(found.ropes, expected.ropes, strict=True):
        _assert_same_rotation(ours, theirs)


def _assert_same_rotation(found: RopeConfig | None, expected: RopeConfig | None) -> None:
    """The same angles: scaling by factors need not be written as the same kind of it."""
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.rotary_dim == expected.rotary_dim
        assert found.attention_factor == pytest.approx(expected.attention_factor)
        torch.testing.assert_close(frequencies(found, 256), frequencies(expected, 256), rtol=3e-7, atol=0)


def test_absent_keys_mean_what_they_mean_to_llama_cpp(llama: Path) -> None:
    absent = ("attention.key_length", "attention.value_length", "rope.dimension_count", "rope.freq_base")
    config = _config(llama, dict.fromkeys((f"llama.{key}" for key in absent), None))
    assert config.head_dim == HEAD_DIM
    assert config.distinct_ropes[0].theta == 10_000.0
    config = _config(llama, {"llama.attention.head_count_kv": None}, {"blk.0.attn_k.weight": None})
    assert config.num_kv_heads == config.num_heads


def test_the_rope_of_old_files_is_read(llama: Path) -> None:
    (rope,) = _config(llama, {"llama.rope.scale_linear": 4.0}).distinct_ropes
    assert (rope.kind, rope.factor) == ("linear", 4.0)
    (rope,) = _config(llama, {"llama.rope.scaling.type": "none"}).distinct_ropes
    assert rope.kind == "default"


def test_yarn_has_the_parameters_of_the_keys(llama: Path) -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 64}
    more = {"yarn_beta_fast": 16.0, "yarn_beta_slow": 2.0, "yarn_attn_factor": 1.5, "yarn_ext_factor": 1.0}
    values = {f"llama.rope.scaling.{key}": value for key, value in {**scaling, **more}.items()}
    (rope,) = _config(llama, values).distinct_ropes
    assert (rope.kind, rope.factor, rope.original_context) == ("yarn", 4.0, 64)
    assert (rope.beta_fast, rope.beta_slow, rope.attention_factor) == (16.0, 2.0, 1.5)


def test_factors_of_frequencies_are_taken_as_they_are(llama: Path) -> None:
    factors = np.linspace(1, 9, HEAD_DIM // 2, dtype=np.float32)
    (rope,) = _config(llama, tensors={"rope_freqs.weight": factors}).distinct_ropes
    (plain,) = _config(llama, tensors={"rope_freqs.weight": None}).distinct_ropes
    torch.testing.assert_close(
        frequencies(rope, 256), frequencies(plain, 256) / torch.from_numpy(factors), rtol=3e-7, atol=0
    )
    assert rope.attention_factor == 1.0


def test_the_factors_of_llama_3_are_those_of_transformers() -> None:
    """Or the files that tests write would prove little."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {
        **{"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0},
        **{"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    }
    config = LlamaConfig(head_dim=64, rope_parameters=rope)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 1 / 500_000.0 ** (torch.arange(0, 64, 2) / 64)
    torch.testing.assert_close(plain / llama3_factors(rope, 64), scaled)


def test_recommended_sampling_is_read(llama: Path) -> None:
    assert GgufCheckpoint(llama).generation == {}
    sampling = {"temp": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1, "penalty_repeat": 1.1, "mirostat": 2}
    path = edited(llama, {f"general.sampling.{key}": value for key, value in sampling.items()})
    assert GgufCheckpoint(path).generation == {
        **{"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1, "repetition_penalty": 1.1}
    }


def test_the_dtype_is_that_of_most_numbers(tmp_path: Path) -> None:
    from gguf import GGMLQuantizationType as Kind

    GGUF_FAMILIES["llama"](tmp_path)
    for kind, dtype in ((Kind.F32, "float32"), (Kind.F16, "float16"), (Kind.BF16, "bfloat16"), (Kind.Q8_0, None)):
        assert GgufCheckpoint(write_gguf(tmp_path, tmp_path / "m.gguf", matrices=kind)).config.dtype == dtype


def test_a_file_without_a_vocabulary_names_no_tokens(tmp_path: Path) -> None:
    GGUF_FAMILIES["llama"](tmp_path)
    checkpoint = GgufCheckpoint(write_gguf(tmp_path, tmp_path / "m.gguf", vocabulary=False))
    assert not checkpoint.has_tokenizer
    assert checkpoint.config.eos_token_ids == (2,)  # config.json's default


# --- what is refused ------------------------------------------------------------------------------------------------

YARN = {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    (
        "general.architecture 'qwen2moe' is not supported, unlike qwen2, qwen3, qwen3moe",
        {"general.architecture": "qwen2moe"},
    ),
    ("general.type is 'adapter'; the file holds a part that belongs to a model", {"general.type": "adapter"}),
    ("llama.block_count is missing", {"llama.block_count": None}),
    ("llama.block_count is 'three', and should be of type int", {"llama.block_count": "three"}),
    ("num_hidden_layers 2000000 is more than 1000", {"llama.block_count": 2_000_000}),
    ("num_hidden_layers -1 is not a whole number from 1 up", {"llama.block_count": -1}),
    ("llama.embedding_length is 64.0, and should be of type int", {"llama.embedding_length": 64.0}),
    ("llama.attention.head_count is 0, of 64 numbers of a hidden state", {"llama.attention.head_count": 0}),
    ("num_key_value_heads 3 does not divide the 4", {"llama.attention.head_count_kv": 3}),
    ("rms_norm_eps nan is not a number above 0", {"llama.attention.layer_norm_rms_epsilon": float("nan")}),
    ("rope_theta -1.0 is not a number above 0", {"llama.rope.freq_base": -1.0}),
    ("llama.attention.value_length is not the 16 of llama.attention.key_length", {"llama.attention.value_length": 8}),
    ("partial_rotary_factor 0.5 is not supported", {"llama.rope.dimension_count": 8}),
    ("is_causal False is not supported", {"llama.attention.causal": False}),
    ("llama.logit_scale is not a key that cede knows, and it may change what is computed", {"llama.logit_scale": 2.0}),
    ("llama.attention.sliding_window is not a key that cede knows", {"llama.attention.sliding_window": 16}),
    ("llama.rope.scaling.type is 'cubic', which is not supported", {"llama.rope.scaling.type": "cubic"}),
    ("llama.rope.scaling.attn_factor is not supported without", {"llama.rope.scaling.attn_factor": 2.0}),
    ("factor None is not a number above 0", {"llama.rope.scaling.type": "yarn"}),
    ("llama.rope.scaling.yarn_ext_factor is not supported", {**YARN, "llama.rope.scaling.yarn_ext_factor": 0.5}),
    ("general.sampling.top_k is 'all', and should be of type int", {"general.sampling.top_k": "all"}),
]


@pytest.mark.parametrize(("message", "values"), REFUSED, ids=[message[:40] for message, _ in REFUSED])
def test_what_cede_would_compute_wrongly_is_refused_by_name(message: str, values: dict[str, Any], llama: Path) -> None:
    checkpoint = GgufCheckpoint(edited(llama, values))
    with pytest.raises(CheckpointError, match=rf"m\.gguf: {re.escape(message)}"):
        _ = checkpoint.config, checkpoint.generation


@pytest.mark.parametrize(
    ("message", "tensors"),
    [
        ("token_embd.weight is missing", {"token_embd.weight": None}),
        ("rope_freqs.weight is F32 [4], and should be F32 [8]", {"rope_freqs.weight": np.ones(4, np.float32)}),
        ("rope_freqs.weight is F16 [8], and should be F32 [8]", {"rope_freqs.weight": np.ones(8, np.float16)}),
        ("rope_factors_short.weight is missing", {"rope_factors_long.weight": np.ones(8, np.float32)}),
        ("short_factor 0.0 is not a number above 0", {"rope_freqs.weight": np.zeros(8, np.float32)}),
    ],
)
def test_tensors_that_are_settings_are_checked(message: str, tensors: dict[str, Any], llama: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"m\.gguf: {re.escape(message)}"):
        _config(llama, tensors=tensors)


def test_two_scalings_at_once_are_refused(llama: Path) -> None:
    factors = {"rope_freqs.weight": np.ones(8, np.float32)}
    with pytest.raises(CheckpointError, match=r"scaling\.type is not supported beside factors of each frequency"):
        _config(llama, YARN, factors)
