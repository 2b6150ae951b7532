"""config.json in its old and new forms, each family's switches, and every refusal naming its culprit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from transformers import AutoConfig

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.families.layer_kinds import all_linear
from runtime.checkpoint.families.table import FAMILIES as ARCHITECTURES
from runtime.checkpoint.layer_config import RopeConfig
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from tests.models.checkpoints import FAMILIES
from tests.rows import every_row

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _as(architecture: str, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    model_type = architecture.removesuffix("ForCausalLM").lower()
    return {**LLAMA, "architectures": [architecture], "model_type": model_type, **settings}


def _thetas(config: Any) -> set[float]:  # noqa: ANN401
    """Of transformers' ropes, which are one for all layers, or one for each type of them; or none rotates."""
    if getattr(config, "position_embedding_type", "rope") != "rope":
        return set()
    given = getattr(config, "rope_parameters", {})
    sets = [given] if "rope_theta" in given else [given[kind] for kind in config.layer_types if kind in given]
    return {own["rope_theta"] for own in sets} - {None}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_as_transformers_reads_it(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    ours, theirs = open_checkpoint(tmp_path).config, AutoConfig.from_pretrained(tmp_path)
    assert [ours.architecture] == theirs.architectures
    theirs = theirs.get_text_config()
    theirs.allow_global_per_layer_attribute_access = True  # of Gemma 4, whose layers have heads of two sizes
    assert ours.vocab_size == theirs.vocab_size
    assert ours.hidden_size == theirs.hidden_size
    widths = theirs.intermediate_size  # of Gemma 3n: of each layer
    assert ours.intermediate_size == (max(widths) if isinstance(widths, list) else widths)
    assert ours.num_layers == theirs.num_hidden_layers
    assert ours.num_heads == theirs.num_attention_heads
    assert ours.num_kv_heads == theirs.num_key_value_heads
    head_dim = getattr(theirs, "qk_head_dim", None) or getattr(theirs, "head_dim", None)  # the first: latent attention
    assert ours.head_dim == (head_dim or ours.hidden_size // ours.num_heads)
    assert ours.context_length == theirs.max_position_embeddings
    assert ours.norm_eps == getattr(theirs, ours.norms.eps_key)
    assert {rope.theta for rope in ours.distinct_ropes} == _thetas(theirs)
    assert ours.tied_embeddings == theirs.tie_word_embeddings
    assert ours.dtype == "float32"
    assert ours.eos_token_ids == (256, 258)
    assert ours.bos_token_id == 256


@pytest.mark.parametrize(
    ("family", "window", "rotary"),
    [
        ("llama", (None, None, None), (True, True, True)),
        ("smollm3", (None, None, None), (True, False, True)),
        ("mistral", (16, 16, 16), (True, True, True)),
        ("mistral-full", (None, None, None), (True, True, True)),
        ("qwen2", (None, None, None), (True, True, True)),
        ("qwen2-window", (None, 16, 16), (True, True, True)),
        ("gemma2", (16, None, 16), (True, True, True)),
        ("gemma3", (16, None, 16), (True, True, True)),
        ("gemma3-images", (16, 16, None), (True, True, True)),
        ("phi3", (16, 16, 16), (True, True, True)),
        ("olmo3-yarn", (16, 16, 16), (True, True, True)),
        ("gemma4", (None, 16, None), (True, True, True)),
        ("cohere2", (16, None, 16), (True, False, True)),
        ("lfm2", (None, None, None), (False, True, False)),
        ("qwen3-next", (None, None, None), (False, True, False)),
        ("exaone4", (16, None, 16), (True, False, True)),
        ("exaone4-full", (None, None, None), (True, True, True)),
        ("granite-hybrid", (None, None, None), (False, True, False)),
        ("laguna", (None, 16, 16, None), (True,) * 4),
        ("falcon-h1", (None, None, None), (True, True, True)),
        ("granite-hybrid-moe", (None, None, None), (False, False, False)),
        ("nemotron-h", (None,) * 4, (False,) * 4),
        ("olmo-hybrid", (None, None, None), (False, False, False)),
        ("olmo-hybrid-rope", (None, None, None), (False, True, False)),
    ],
)
def test_windows_and_rotation_by_layer(
    family: str, window: tuple[int | None, ...], rotary: tuple[bool, ...], tmp_path: Path
) -> None:
    FAMILIES[family](tmp_path)
    config = open_checkpoint(tmp_path).config
    assert config.window == window
    assert tuple(rope is not None for rope in config.ropes) == rotary


@pytest.mark.parametrize(
    ("family", "switches"),  # qk_norm, qkv_bias, output_bias, mlp_bias
    [
        ("llama", (None, False, False, False)),
        ("llama-bias", (None, True, True, True)),
        ("mistral", (None, False, False, False)),
        ("qwen2", (None, True, False, False)),
        ("qwen3", ("shared", False, False, False)),
        ("qwen3-tied", ("shared", True, True, False)),
        ("olmo2", ("joint", False, False, False)),
        ("glm", (None, True, False, False)),
        ("glm4", (None, False, False, False)),
        ("cohere", (None, False, False, False)),
        ("cohere-qk-norm", ("by_head", True, True, False)),
    ],
)
def test_norms_and_biases(family: str, switches: tuple[str | bool | None, ...], tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    config = open_checkpoint(tmp_path).config
    assert (config.qk_norm, config.qkv_bias, config.output_bias, config.mlp_bias) == switches


# --- old form and new ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"rope_theta": 5e5}, {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}),
        (
            {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}},
        ),
        (
            {"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0}},
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6}},
        ),
        ({"rope_scaling": None}, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
        ({"torch_dtype": "bfloat16"}, {"dtype": "bfloat16"}),
    ],
    ids=["theta", "linear", "yarn", "nothing", "dtype"],
)
def test_old_form_equals_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert parse_config({**LLAMA, **old}) == parse_config({**LLAMA, **new})


def test_yarn_lengthens_the_context_that_the_file_left_as_it_was() -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    assert parse_config({**LLAMA, "rope_scaling": scaling}).context_length == 512
    assert parse_config({**LLAMA, "rope_scaling": scaling, "max_position_embeddings": 600}).context_length == 600
    linear = {"type": "linear", "factor": 4.0}
    assert parse_config({**LLAMA, "rope_scaling": linear}).context_length == 128


def test_longrope_s_factors_are_the_context_s_to_choose(tmp_path: Path) -> None:
    FAMILIES["phi3-long"](tmp_path)  # trained at 16 tokens
    config = open_checkpoint(tmp_path).config
    assert [config.rope_factors(context) for context in (16, 17, 256)] == ["short", "long", "long"]
    assert parse_config(LLAMA).rope_factors(16) is None


def test_llama3_scaling() -> None:
    scaling = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
    config = parse_config({**LLAMA, "rope_theta": 5e5, "rope_scaling": scaling})
    assert config.distinct_ropes[0] == RopeConfig(
        "llama3", 16, 5e5, factor=8, original_context=128, low_freq_factor=1, high_freq_factor=4
    )


# --- what an absent key means -------------------------------------------------------------------------------------


def _bare(architecture: str) -> dict[str, Any]:
    """A config without any key that can be left out."""
    needed = {key: LLAMA[key] for key in ("vocab_size", "intermediate_size")}
    needed["hidden_size"] = 128  # heads of 4 numbers, of which a half can be rotated
    sizes = {"num_hidden_layers": 30, "num_attention_heads": 32, "max_position_embeddings": 128}
    sizes["first_k_dense_replace"] = sizes["num_hidden_layers"]  # of DeepSeek, whose other layers have experts
    family = ARCHITECTURES[architecture]
    text: dict[str, Any] = needed | sizes
    if family.layer_types is all_linear:
        text["layer_types"] = ["linear_attention", "full_attention"] * 15
    if family.text_config is not None:
        text = {family.text_config: text}
    return text | {"architectures": [architecture], "model_type": family.model_type}


@every_row("architecture", ARCHITECTURES)
def test_keys_that_a_family_names_have_a_default(architecture: str) -> None:
    assert parse_config(_bare(architecture)).num_layers == 30


THEIRS = sorted(name for name, family in ARCHITECTURES.items() if not family.assists and name != "MiMoForCausalLM")


@pytest.mark.parametrize("architecture", THEIRS)
def test_absent_keys_mean_what_they_mean_to_transformers(architecture: str, tmp_path: Path) -> None:
    bare = _bare(architecture)
    (tmp_path / "config.json").write_text(json.dumps(bare))
    ours, theirs = open_checkpoint(tmp_path).config, AutoConfig.from_pretrained(tmp_path).get_text_config()
    if ours.latent is None:  # of which all heads share what is stored
        assert ours.num_kv_heads == theirs.num_key_value_heads
    assert ours.norm_eps == getattr(theirs, ours.norms.eps_key)
    assert {rope.theta for rope in ours.distinct_ropes} == _thetas(theirs)
    assert ours.tied_embeddings == theirs.tie_word_embeddings
    assert ours.bos_token_id == theirs.bos_token_id
    ends = theirs.eos_token_id if isinstance(theirs.eos_token_id, list) else [theirs.eos_token_id]
    assert ours.eos_token_ids == tuple(end for end in ends if end is not None)
    if not (types := getattr(theirs, "layer_types", None)):
        types = ["sliding_attention" if getattr(theirs, "sliding_window", None) else "full_attention"] * 30
    window = {"sliding_attention": getattr(theirs, "sliding_window", None)}
    assert list(ours.window) == [window.get(kind) for kind in types]
    recurrent = ("conv", "linear_attention", "hybrid")
    assert [layer is not None for layer in ours.recurrent] == [kind in recurrent for kind in types]
    assert ours.dtype is None


def test_mimo_is_qwen2_by_another_name() -> None:
    """The keys of MiMo-7B's own file that differ from Llama's."""
    keys = {"attention_bias": True, "use_sliding_window": False, "sliding_window": 64, "max_window_layers": 2}
    mimo = parse_config(_as("MiMoForCausalLM", **keys, num_nextn_predict_layers=1, use_mrope=False))
    qwen = parse_config(_as("Qwen2ForCausalLM", **keys))
    assert mimo == replace(qwen, architecture="MiMoForCausalLM")
    assert (mimo.qkv_bias, mimo.output_bias, mimo.window) == (True, False, (None,) * 4)


def test_smollm3_leaves_out_every_fourth_rotation() -> None:
    config = parse_config(_as("SmolLM3ForCausalLM"))
    assert tuple(rope is not None for rope in config.ropes) == (True, True, True, False)
    assert config.distinct_ropes[0].theta == 2e6


def test_model_type_stands_in_for_the_architecture() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "architectures"}
    assert parse_config(config).architecture == "LlamaForCausalLM"


def test_layer_types_go_before_max_window_layers() -> None:
    types = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    qwen = _as("Qwen2ForCausalLM", use_sliding_window=True, sliding_window=8, layer_types=types)
    assert parse_config(qwen).window == (8, None, 8, None)


def test_qwens_window_is_off_unless_it_is_switched_on() -> None:
    qwen = _as("Qwen2ForCausalLM", use_sliding_window=False, sliding_window=8, max_window_layers=0)
    assert parse_config(qwen).window == (None,) * 4


def test_end_tokens_of_both_files_once_each() -> None:
    config = parse_config({**LLAMA, "eos_token_id": [2, 5]}, {"eos_token_id": [7, 2]})
    assert config.eos_token_ids == (2, 5, 7)


# --- refusals -----------------------------------------------------------------------------------------------------


@every_row(
    "settings, culprit",
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"architectures": ["LlamaForCausalLM", "Other"]}, "Other"),
        ({"architectures": [{}]}, "architectures"),
        ({"architectures": None, "model_type": "mamba"}, "mamba"),
        ({"model_type": "mistral"}, "model_type 'mistral'"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"is_causal": False}, "is_causal"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic'"),
        (
            {
                "architectures": ["HunYuanDenseV1ForCausalLM"],
                "model_type": None,
                "rope_scaling": {"type": "dynamic", "factor": 2.0},
            },
            "alpha None",
        ),
        (
            {
                "architectures": ["Mistral3ForConditionalGeneration"],
                "model_type": None,
                "text_config": {"model_type": "mistral9"},
            },
            "text_config.model_type 'mistral9'",
        ),
        ({"rope_parameters": {"rope_type": "longrope"}}, "short_factor None"),
        ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1]}}, "long_factor"),
        ({"rope_parameters": [1]}, "rope_parameters"),
        ({"rope_parameters": {"rope_type": ["yarn"]}}, "rope_type"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "rope_parameters"),
        ({"rope_scaling": {"type": "linear"}}, "factor None"),
        ({"rope_scaling": {"type": "yarn"}}, "factor None"),
        ({"rope_scaling": {"type": "llama3", "factor": 8.0}}, "low_freq_factor None"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5"),
        (
            {
                "original_max_position_embeddings": 64,
                "rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32},
            },
            "original_max_position_embeddings 64",
        ),
        ({"rope_theta": "big"}, "rope_theta 'big'"),
        ({"dtype": "float8_e4m3fn"}, "dtype 'float8_e4m3fn'"),
        ({"hidden_size": 63}, "hidden_size 63"),
        ({"hidden_size": None}, "hidden_size None"),
        ({"vocab_size": True}, "vocab_size True"),
        ({"num_hidden_layers": 0}, "num_hidden_layers 0"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers 1000000000000"),
        ({"head_dim": 15}, "head_dim 15"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ({"rms_norm_eps": 0}, "rms_norm_eps 0"),
        ({"attention_bias": "yes"}, "attention_bias 'yes'"),
        ({"eos_token_id": "</s>"}, "eos_token_id '</s>'"),
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types"),
    ],
)
def test_refusals_name_the_key(settings: dict[str, Any], culprit: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_config({**LLAMA, **settings})
    assert culprit in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "culprit"),
    [
        ({"use_sliding_window": True, "layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types"),
        ({"layer_types": ["chunked_attention"] * 4}, "chunked_attention"),
        ({"layer_types": [{}] * 4}, "layer_types"),
        ({"use_sliding_window": True, "sliding_window": 0}, "sliding_window 0"),
    ],
    ids=str,
)
def test_windows_that_cannot_be(settings: dict[str, Any], culprit: str) -> None:
    with pytest.raises(CheckpointError, match=culprit):
        parse_config(_as("Qwen2ForCausalLM", max_window_layers=0, **settings))


def test_no_rope_layers_must_cover_the_layers() -> None:
    with pytest.raises(CheckpointError, match="no_rope_layers"):
        parse_config(_as("SmolLM3ForCausalLM", no_rope_layers=[1, 0]))


@pytest.mark.parametrize("text", [None, "{", "[]", b"\xff"], ids=["absent", "cut", "list", "binary"])
def test_unreadable_files_are_named(text: str | bytes | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "config.json").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        _ = open_checkpoint(tmp_path).config
