"""Models as mlx-lm stores them, brought back to the names, shapes and numbers of the folders that it converts.

What it renames, turns or stacks is known by names and shapes.  Of a few architectures it changes numbers, too, and
then convolutions say so, by which mlx-lm itself tells its own folders from others: theirs are `[channels, width, 1]`.

Source: https://github.com/ml-explore/mlx-lm (`sanitize` of the classes in mlx_lm/models).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import number, numbers
from runtime.checkpoint.recurrent_config import BesideAttentionConfig
from runtime.checkpoint.stored import ALL, PLAIN_FORMS, GroupCodes, OfAnother, WithoutCodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import CodeFormat, Rows, StoredTensor

    Tensors = Mapping[str, StoredTensor]
    # How many rows of a matrix, one after the other, were multiplied with which factor.
    Factors = tuple[tuple[int, float], ...]

_NAMES = (
    (re.compile(r"\.experts\.switch_glu\."), ".experts."),  # Gemma 4
    (re.compile(r"\.switch_mlp\.fc1\."), ".switch_mlp.up_proj."),  # Nemotron-H
    (re.compile(r"\.switch_mlp\.fc2\."), ".switch_mlp.down_proj."),
    (re.compile(r"\.mlp\.gate\.proj\."), ".mlp.gate."),  # Laguna
    (re.compile(r"\.([qkv])_conv\.conv\."), r".\1_conv1d."),  # Kimi Linear
)
_CONVOLUTION = re.compile(r"[._]conv(?:1d)?\.weight$")
_KEYS, _VALUES, _BOTH = ".self_attn.embed_q.weight", ".self_attn.unembed_out.weight", ".self_attn.kv_b_proj.weight"
_NORM = re.compile(r"(?:\.(?:input_layernorm|post_attention_layernorm|q_norm|k_norm)|(?:^|\.)model\.norm)\.weight$")
_MODULE = re.compile(r"(?:^|\.)mtp\.")


def as_published(found: Tensors, config: ModelConfig, settings: Settings) -> Tensors:
    """Return the tensors as they are in a folder that was not converted; such a folder's own stay as they are.

    Args:
        found: all tensors of the files, with packed matrices put together.
        config: of the model.
        settings: `config.json`, which the conversion leaves as it was.

    Raises:
        CheckpointError: numbers were changed, and config.json does not say how.
    """
    whole = _with_latents({_renamed(name, found): stored for name, stored in found.items()})
    turned = {name: Turned(stored) for name, stored in whole.items() if _is_turned(name, stored)}
    restore = _NUMBERS.get(config.architecture)
    if not turned or restore is None:
        return {**whole, **turned}
    return restore({**whole, **turned}, config, settings)


def _renamed(name: str, found: Tensors) -> str:
    """Return the published name; the own one, which is refused later, where another tensor has that."""
    published = name
    for pattern, replacement in _NAMES:
        published = pattern.sub(replacement, published)
    return name if published in found else published


def _is_turned(name: str, stored: StoredTensor) -> bool:
    return bool(_CONVOLUTION.search(name)) and stored.shape[2:] == (1,) and stored.shape[1] > 1


@dataclass(frozen=True, slots=True)
class Turned(OfAnother, WithoutCodes):
    """A convolution as PyTorch has it, in which the numbers lie alike.

    Attributes:
        whole: `[channels, width, 1]`.
    """

    whole: StoredTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """`[channels, 1, width]`."""
        channels, width, one = self.whole.shape
        return (channels, one, width)

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read all, and take rows."""
        read = self.whole.expand()
        return read.reshape(self.shape) if rows == ALL else read[..., 0][rows]


# --- latent attention -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinedHeads(OfAnother, WithoutCodes):
    """The matrix that makes keys and values of a latent, each head's keys before its values.

    Attributes:
        whole: of the keys, `[heads, rank, keys]`.
        values: `[heads, values, rank]`.
    """

    whole: StoredTensor
    values: StoredTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Keys and values of all heads, by the rank."""
        heads, rank, keys = self.whole.shape
        return (heads * (keys + self.values.shape[1]), rank)

    @property
    def num_bytes(self) -> int:
        """Bytes of both."""
        return self.whole.num_bytes + self.values.num_bytes

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read both whole, and take rows."""
        import torch

        keys, values = self.whole.expand(), self.values.expand()
        return torch.cat((keys.transpose(1, 2), values), dim=1).reshape(self.shape)[rows]


def _with_latents(found: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Join the two parts; what does not fit, or is there as a whole, stays as it is, to be refused by its name."""
    for name in [name for name in found if name.endswith(_KEYS)]:
        other, joined = (name.removesuffix(_KEYS) + own for own in (_VALUES, _BOTH))
        keys, values = found[name], found.get(other)
        if values is None or joined in found:
            continue
        if len(keys.shape) == len(values.shape) == 3 and values.shape[::2] == keys.shape[:2]:
            del found[name], found[other]
            found[joined] = JoinedHeads(keys, values)
    return found


# --- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LessOne(OfAnother, WithoutCodes):
    """A norm to which 1 was added.

    Attributes:
        whole: `[size]`.
    """

    whole: StoredTensor

    @property
    def form(self) -> str:
        """Float32, in which 1 is taken off."""
        return "F32"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole."""
        return self.whole.shape

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read, and take 1 off."""
        return self.whole.expand(rows).float() - 1


@dataclass(frozen=True, slots=True)
class Divided(OfAnother):
    """A matrix whose rows were multiplied with factors.

    Attributes:
        whole: `[out, in]`.
        factors: of all its rows.
    """

    whole: StoredTensor
    factors: Factors

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole."""
        return self.whole.shape

    @property
    def form(self) -> str:
        """Format of the whole, but for plain numbers, whose quotients need 32 bits."""
        return "F32" if self.whole.form in PLAIN_FORMS else self.whole.form

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of the whole: its scales and zeros are divided."""
        return self.whole.code_format

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows, and divide them."""
        return self.whole.expand(rows).float() / self._divisors(rows)

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Read rows in their own codes."""
        read, by = self.whole.codes(rows), self._divisors(rows)
        return GroupCodes(read.codes, read.scales / by, read.zeros / by, read.group, read.bits)

    def _divisors(self, rows: Rows) -> torch.Tensor:
        import torch

        counts, factors = zip(*self.factors, strict=True)
        return torch.repeat_interleave(torch.tensor(factors), torch.tensor(counts))[rows, None]


def _qwen(found: Tensors, config: ModelConfig, settings: Settings) -> Tensors:
    """Take off the 1 that norms have more, and leave out a module for multi-token prediction, which mlx-lm drops."""
    return {
        name: LessOne(stored) if _NORM.search(name) and len(stored.shape) == 1 else stored
        for name, stored in found.items()
        if not _MODULE.search(name)
    }


def _falcon(found: Tensors, config: ModelConfig, settings: Settings) -> Tensors:
    """Divide by the factors that matrices were multiplied with; those of keys and of what values read are in none."""
    gate, mlp = numbers(settings, "mlp_multipliers", 2)
    factors = {
        "embed_tokens": number(settings, "embedding_multiplier"),
        "lm_head": number(settings, "lm_head_multiplier"),
        **dict.fromkeys(("q_proj", "k_proj"), number(settings, "attention_in_multiplier")),
        "o_proj": number(settings, "attention_out_multiplier"),
        "out_proj": number(settings, "ssm_out_multiplier"),
        "gate_proj": gate,
        "down_proj": mlp,
    }
    numbers(settings, "ssm_multipliers", 5)  # which must be there, as the others
    number(settings, "ssm_in_multiplier")
    mamba = next(each.mamba for each in config.recurrent if isinstance(each, BesideAttentionConfig))
    sizes = (mamba.inner, mamba.inner, *[mamba.groups * mamba.size] * 2, mamba.heads)
    inputs = tuple(zip(sizes, mamba.factors or (), strict=True))

    def restored(name: str, stored: StoredTensor) -> StoredTensor:
        module = name.removesuffix(".weight").rpartition(".")[2]
        own = inputs if module == "in_proj" else ((sum(stored.shape[:1]), factors.get(module, 1.0)),)
        fits = name.endswith(".weight") and len(stored.shape) == 2 and stored.shape[0] == sum(count for count, _ in own)
        return Divided(stored, own) if fits and any(factor != 1 for _, factor in own) else stored

    return {name: restored(name, stored) for name, stored in found.items()}


_NUMBERS: Mapping[str, Callable[[Tensors, ModelConfig, Settings], Tensors]] = {
    **dict.fromkeys(
        (
            "Qwen3NextForCausalLM",
            "Qwen3_5ForCausalLM",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
        ),
        _qwen,
    ),
    "FalconH1ForCausalLM": _falcon,
}
