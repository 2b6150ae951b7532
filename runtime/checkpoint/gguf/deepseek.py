"""Models with DeepSeek's latent in GGUF files: what their keys say, and how their tensors are cut.

Sources: `DeepseekV2Model` of llama.cpp's conversion modules, which writes the files, and its `deepseek2.cpp`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gguf.constants import ExpertGatingFuncType

from runtime.checkpoint.gguf import rope
from runtime.checkpoint.stored import ALL, WithoutCodes

if TYPE_CHECKING:
    import torch

    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import Rows, StoredTensor

ARCHITECTURE = "deepseek2"
_GATING, _MULTIPLIER = "expert_gating_func", "rope.scaling.yarn_log_multiplier"
_KEY_LENGTH, _VALUE_LENGTH = "attention.key_length", "attention.value_length"
_CORRECTION = ".exp_probs_b.bias"
SIZE_KEYS = frozenset({f"{_KEY_LENGTH}_mla", f"{_VALUE_LENGTH}_mla"})
KEYS = SIZE_KEYS | {_GATING, _MULTIPLIER}

_KEY_UP, _VALUE_UP, _BOTH_UP = (f".self_attn.{name}.weight" for name in ("k_b_proj", "v_b_proj", "kv_b_proj"))


def deepseek_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return the settings that are not a key's value.

    Args:
        file: of this architecture.
        settings: those that are.

    Raises:
        CheckpointError: a key is missing, of another type, or asks for what cede does not compute.
    """
    metadata, prefix, found = file.metadata, f"{ARCHITECTURE}.", latent_sizes(file)
    # Files of V2 and of GLM-4.7-Flash lack the key; of these two the latter's router alone has a correction.
    corrected = any(name.endswith(_CORRECTION) for name in file.tensors)
    absent = ExpertGatingFuncType.SIGMOID if corrected else ExpertGatingFuncType.SOFTMAX
    gating = metadata.find(f"{prefix}{_GATING}", int) or absent
    if gating == ExpertGatingFuncType.SIGMOID:
        found |= {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"}
    elif gating == ExpertGatingFuncType.SOFTMAX:
        found["topk_method"] = "group_limited_greedy" if settings.get("n_group", 1) > 1 else "greedy"
    else:
        raise metadata.invalid(f"{prefix}{_GATING}", f"is {gating}, which is not supported")
    return found | _rope(file, found["qk_rope_head_dim"])


def latent_sizes(file: GgufFile) -> dict[str, Any]:
    """Return the sizes of heads that attend over a latent.

    Raises:
        CheckpointError: a key is missing or of another type.
    """
    metadata, prefix = file.metadata, f"{file.architecture}."
    rope_dim = metadata.require(f"{prefix}rope.dimension_count", int)
    # New files describe the attention over latents, and the heads' own sizes beside it.
    own = "_mla" if f"{prefix}{_KEY_LENGTH}_mla" in metadata else ""
    return {
        "head_dim": None,
        "num_key_value_heads": None,  # new files have 1, the latent's
        "qk_rope_head_dim": rope_dim,
        "qk_nope_head_dim": metadata.require(f"{prefix}{_KEY_LENGTH}{own}", int) - rope_dim,
        "v_head_dim": metadata.require(f"{prefix}{_VALUE_LENGTH}{own}", int),
    }


def _rope(file: GgufFile, rope_dim: int) -> dict[str, Any]:
    """Return the settings of the rope; of YaRN's two magnitudes the files have one, for all models have them alike."""
    settings = rope.rope_settings(file, rope_dim)
    scaling = settings.get("rope_scaling")
    if scaling is None or scaling["rope_type"] != "yarn":
        return settings
    key = f"{ARCHITECTURE}.{_MULTIPLIER}"
    # A tenth of the magnitude, in float32.  Without it the scale of attention cannot be told.
    magnitude = round(10 * file.metadata.require(key, float), 6)
    return settings | {"rope_scaling": {**scaling, "mscale": magnitude, "mscale_all_dim": magnitude}}


# --- tensors --------------------------------------------------------------------------------------------------------


def whole_tensors(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Join what the conversion has cut.

    Parts of another shape than `settings` make them are left as they are, to be refused by their names.
    """
    heads, rank = settings["num_attention_heads"], settings["kv_lora_rank"]
    plain, value = settings["qk_nope_head_dim"], settings["v_head_dim"]
    whole: dict[str, StoredTensor] = {}
    for name, tensor in found.items():
        values = found.get(name.removesuffix(_KEY_UP) + _VALUE_UP) if name.endswith(_KEY_UP) else None
        if values is not None and tensor.shape == (heads, rank, plain) and values.shape == (heads, value, rank):
            whole[name.removesuffix(_KEY_UP) + _BOTH_UP] = JoinedHeads(tensor, values)
        else:
            whole[name] = tensor
    return {
        name: tensor
        for name, tensor in whole.items()
        if not (name.endswith(_VALUE_UP) and name.removesuffix(_VALUE_UP) + _BOTH_UP in whole)
    }


@dataclass(frozen=True, slots=True)
class JoinedHeads(WithoutCodes):
    """`kv_b_proj`, which the conversion has cut in two: head by head the rows of keys, and behind them those of values.

    Attributes:
        keys: `[heads, rank, numbers of a key]`, transposed.
        values: `[heads, numbers of a value, rank]`.
    """

    keys: StoredTensor
    values: StoredTensor

    @property
    def file(self) -> str:
        """The file's name."""
        return self.keys.file

    @property
    def shape(self) -> tuple[int, ...]:
        """`[heads * (numbers of a key and of a value), rank]`."""
        heads, rank, plain = self.keys.shape
        return heads * (plain + self.values.shape[1]), rank

    @property
    def form(self) -> str:
        """The keys', which may be another than that of the values."""
        return self.keys.form

    @property
    def num_bytes(self) -> int:
        """Size of both in the file."""
        return self.keys.num_bytes + self.values.num_bytes

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read both, and take rows of the whole."""
        import torch

        keys = self.keys.expand().view(self.keys.shape).transpose(1, 2).float()
        values = self.values.expand().view(self.values.shape).float()
        return torch.cat((keys, values), dim=1).reshape(-1, math.prod(self.shape[1:]))[rows]
