"""How a GGUF file says by which angles queries and keys are rotated: keys under `rope`, and tensors of factors.

Sources: llama.cpp's `load_hparams` and `llama_context`, and `set_gguf_parameters` and `generate_extra_tensors` of its
conversion modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.checkpoint.gguf.tensors import read_vector

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile

LLAMA3_FACTORS = "rope_freqs.weight"

KEYS = frozenset(
    {
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scale_linear",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.attn_factor",
        "rope.scaling.original_context_length",
        "rope.scaling.finetuned",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    }
)

# Only the ratios of these to the length of training count, and every published model has these two.
_LOW, _HIGH = 1.0, 4.0
_LENGTHS = [1 << power for power in range(5, 21)]
_ROUNDING = 1e-5  # relative, of factors that were computed in float32


def rope_settings(file: GgufFile, head_dim: int) -> dict[str, Any]:
    """Return `rope_theta`, and `rope_scaling` where there is any.

    Raises:
        CheckpointError: a key or tensor asks for what cede does not compute.
    """
    prefix, metadata = f"{file.architecture}.", file.metadata
    theta = metadata.find(f"{prefix}rope.freq_base", float) or 10_000.0
    if metadata.find(f"{prefix}rope.scaling.attn_factor", float) not in (None, 1.0):
        raise metadata.invalid(f"{prefix}rope.scaling.attn_factor", "is not supported")
    scaling = _scaling(file)
    if LLAMA3_FACTORS in file.tensors:
        if scaling:
            raise metadata.invalid(f"{prefix}rope.scaling.type", f"is not supported beside {LLAMA3_FACTORS}")
        scaling = _llama3(file, head_dim, theta)
    return {"rope_theta": theta, **({"rope_scaling": scaling} if scaling else {})}


def _scaling(file: GgufFile) -> dict[str, Any]:
    """Return what the keys say; empty for no scaling."""
    prefix, metadata = f"{file.architecture}.rope.", file.metadata
    kind = metadata.find(f"{prefix}scaling.type", str) or "linear"
    factor = metadata.find(f"{prefix}scaling.factor", float) or metadata.find(f"{prefix}scale_linear", float)
    if kind == "none" or (kind == "linear" and factor in (None, 1.0)):
        return {}
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind != "yarn":
        raise metadata.invalid(f"{prefix}scaling.type", f"is {kind!r}, which is not supported; linear and yarn are")
    if (metadata.find(f"{prefix}scaling.yarn_ext_factor", float) or 1.0) not in (1.0, -1.0):  # -1: not set
        raise metadata.invalid(f"{prefix}scaling.yarn_ext_factor", "is not supported, only 1 is")
    found = {
        "factor": factor,
        "original_max_position_embeddings": metadata.find(f"{prefix}scaling.original_context_length", int),
        "attention_factor": metadata.find(f"{prefix}scaling.yarn_attn_factor", float),
        "beta_fast": metadata.find(f"{prefix}scaling.yarn_beta_fast", float),
        "beta_slow": metadata.find(f"{prefix}scaling.yarn_beta_slow", float),
    }
    return {"rope_type": "yarn"} | {name: value for name, value in found.items() if value is not None}


def _llama3(file: GgufFile, head_dim: int, theta: float) -> dict[str, Any]:
    """Find the parameters of Llama 3's scaling, of which the file has only the factors that they result in.

    `low_freq_factor` and `high_freq_factor` are taken to be 1 and 4; the length of training is the one that gives the
    same factors.  Other factors are refused.
    """
    factors = read_vector(file.tensors[LLAMA3_FACTORS], head_dim // 2)
    if np.all(factors == 1):
        return {}
    factor = float(factors.max())
    with np.errstate(all="ignore"):  # `theta` may be anything: `parse_config` looks at it
        lengths = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    for original in _LENGTHS:
        smooth = ((original / lengths - _LOW) / (_HIGH - _LOW)).clip(0, 1)
        if np.allclose(factors, 1 / ((1 - smooth) / factor + smooth), rtol=_ROUNDING, atol=0):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": _LOW,
                "high_freq_factor": _HIGH,
                "original_max_position_embeddings": original,
            }
    raise file.metadata.invalid(
        LLAMA3_FACTORS, "are not the factors of Llama 3's scaling, and others are not supported"
    )
