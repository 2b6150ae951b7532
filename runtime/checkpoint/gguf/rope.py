"""Rotation of queries and keys as a GGUF file describes it: keys under `rope`, and tensors of factors.

Sources: llama.cpp's `load_hparams` and `llama_context`, and `set_gguf_parameters` and `generate_extra_tensors` of its
conversion modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.checkpoint.gguf.tensors import read_vector

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile

FACTORS = "rope_freqs.weight"  # Llama 3's
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"  # LongRoPE's
TENSORS = frozenset({FACTORS, LONG_FACTORS, SHORT_FACTORS})

KEYS = frozenset(
    {
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scale_linear",  # of old files
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.attn_factor",
        "rope.scaling.original_context_length",
        "rope.scaling.finetuned",  # says how a model was made
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    }
)


def rope_settings(file: GgufFile, head_dim: int) -> dict[str, Any]:
    """Return `rope_theta`, `partial_rotary_factor` where a part of each head rotates, and `rope_scaling`.

    Raises:
        CheckpointError: a key or tensor asks for what cede does not compute.
    """
    prefix, metadata = f"{file.architecture}.rope.", file.metadata
    rotary_dim = metadata.find(f"{prefix}dimension_count", int) or head_dim
    settings: dict[str, Any] = {"rope_theta": metadata.find(f"{prefix}freq_base", float) or 10_000.0}
    if rotary_dim != head_dim:
        settings["partial_rotary_factor"] = rotary_dim / head_dim
        if int(head_dim * settings["partial_rotary_factor"]) != rotary_dim:  # as `parse_config` computes it
            raise metadata.invalid(f"{prefix}dimension_count", f"is {rotary_dim}, which is no part of {head_dim}")
    scalings = [_of_keys(file), _of_factors(file, rotary_dim), _of_long_factors(file, rotary_dim)]
    given = [scaling for scaling in scalings if scaling]
    if len(given) > 1:
        raise metadata.invalid(f"{prefix}scaling.type", "is not supported beside factors of each frequency")
    return settings | {"rope_scaling": given[0] if given else {"rope_type": "default"}}


def _of_keys(file: GgufFile) -> dict[str, Any]:
    """Return the scaling that the keys describe; empty for none."""
    prefix, metadata = f"{file.architecture}.rope.scaling.", file.metadata
    kind = metadata.find(f"{prefix}type", str) or "linear"
    factor = metadata.find(f"{prefix}factor", float) or metadata.find(f"{file.architecture}.rope.scale_linear", float)
    if LONG_FACTORS not in file.tensors and metadata.find(f"{prefix}attn_factor", float) not in (None, 1.0):
        raise metadata.invalid(f"{prefix}attn_factor", f"is not supported without {LONG_FACTORS}")
    if kind in ("none", "longrope") or (kind == "linear" and factor in (None, 1.0)):
        return {}
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind != "yarn":
        raise metadata.invalid(f"{prefix}type", f"is {kind!r:.60}, which is not supported; linear and yarn are")
    if metadata.find(f"{prefix}yarn_ext_factor", float) not in (None, 1.0, -1.0):  # -1: not set
        raise metadata.invalid(f"{prefix}yarn_ext_factor", "is not supported, only 1 is")
    return _given(
        rope_type="yarn",
        factor=factor,
        original_max_position_embeddings=metadata.find(f"{prefix}original_context_length", int),
        attention_factor=metadata.find(f"{prefix}yarn_attn_factor", float),
        beta_fast=metadata.find(f"{prefix}yarn_beta_fast", float),
        beta_slow=metadata.find(f"{prefix}yarn_beta_slow", float),
    )


def _of_factors(file: GgufFile, rotary_dim: int) -> dict[str, Any]:
    """Return Llama 3's scaling, of which the file has the factors that its parameters result in.

    The same factors whatever the length make it a case of LongRoPE, without its temperature.
    """
    if FACTORS not in file.tensors:
        return {}
    factors = read_vector(file.tensors[FACTORS], rotary_dim // 2).tolist()
    return {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}


def _of_long_factors(file: GgufFile, rotary_dim: int) -> dict[str, Any]:
    """Return LongRoPE's scaling."""
    named = {"short_factor": SHORT_FACTORS, "long_factor": LONG_FACTORS}
    if not any(name in file.tensors for name in named.values()):
        return {}
    for name in named.values():
        if name not in file.tensors:
            raise file.metadata.invalid(name, "is missing")
    prefix = f"{file.architecture}.rope.scaling."
    return _given(
        rope_type="longrope",
        **{setting: read_vector(file.tensors[name], rotary_dim // 2).tolist() for setting, name in named.items()},
        attention_factor=file.metadata.find(f"{prefix}attn_factor", float),
    )


def _given(**scaling: Any) -> dict[str, Any]:  # noqa: ANN401
    return {name: value for name, value in scaling.items() if value is not None}
