"""The numbers that define a recurrent layer, in modules that do not import torch.

Such a layer stands in the place of attention, or beside it.  It stores a state of each sequence: a few parts of a fixed
size, however long the sequence is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class StatePart:
    """One tensor of a layer's state.

    Attributes:
        shape: of a sequence's.
        float32: whether it is kept in float32, whatever the model's dtype: sums that grow with each row are.
    """

    shape: tuple[int, ...]
    float32: bool = False


@dataclass(frozen=True, slots=True)
class ShortConvConfig:
    """A gated convolution over a few rows, as LFM2 has it (Liquid AI, "LFM2 Technical Report", arXiv 2511.23404).

    Attributes:
        channels: numbers of a row.
        width: rows that each row sees, itself included.
        bias: whether the convolution and its projections have one.
    """

    channels: int
    width: int
    bias: bool

    @property
    def state(self) -> tuple[StatePart, ...]:
        """The rows that the next one sees, too."""
        return (StatePart((self.width - 1, self.channels)),)


@dataclass(frozen=True, slots=True)
class GatedDeltaConfig:
    """Linear attention by the gated delta rule, behind a short convolution (arXiv 2412.06464).

    In Kimi's form (arXiv 2510.26692) each channel of a key decays by itself, and the gate is a sigmoid.

    Attributes:
        width: rows that each row of the convolution sees, itself included.
        key_heads: heads of queries and of keys; each serves `heads / key_heads` heads, one behind the other.
        heads: of values.
        key_dim: numbers of a head of queries or keys.
        value_dim: numbers of a head of values.
        beta: what a correction's share, a sigmoid, is multiplied with.
        is_split: queries, keys and values have a matrix each, and not one.
        norm_eps: of the norm of what the rule gives; None where it is the model's.
        gate_rank: it is of Kimi's form, whose gate and decay are made of so many numbers; None where it is not.
    """

    width: int
    key_heads: int
    heads: int
    key_dim: int
    value_dim: int
    beta: float = 1.0
    is_split: bool = False
    norm_eps: float | None = None
    gate_rank: int | None = None

    @property
    def channels(self) -> int:
        """Numbers of a row in the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.heads * self.value_dim

    @property
    def state(self) -> tuple[StatePart, ...]:
        """The rows that the convolution's next one sees, too, and a matrix of each head."""
        matrices = (self.heads, self.key_dim, self.value_dim)
        return StatePart((self.width - 1, self.channels)), StatePart(matrices, float32=True)


@dataclass(frozen=True, slots=True)
class Mamba2Config:
    """The state-space model of Mamba 2, behind a short convolution (arXiv 2405.21060).

    Attributes:
        width: rows that each row of the convolution sees, itself included.
        heads: of the model.
        head_dim: numbers of a head.
        groups: each has a B and a C, for `heads / groups` heads, one behind the other; and a norm.
        size: numbers of a B or a C.
        bias: whether the projection of what goes in has one.
        conv_bias: whether the convolution has one.
        output_bias: whether the projection of what goes out has one.
        has_norm: whether there is a norm.
        norm_before_gate: it comes before the gate, and not after it.
        factors: of what goes into the gate, the heads, B, C, and time; None where all are 1.
    """

    width: int
    heads: int
    head_dim: int
    groups: int
    size: int
    bias: bool
    conv_bias: bool
    output_bias: bool = False
    has_norm: bool = True
    norm_before_gate: bool = False
    factors: tuple[float, ...] | None = None

    @property
    def inner(self) -> int:
        """Numbers of a row in all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Numbers of a row in the convolution: those of the heads, B, and C."""
        return self.inner + 2 * self.groups * self.size

    @property
    def state(self) -> tuple[StatePart, ...]:
        """The rows that the convolution's next one sees, too, and a matrix of each head."""
        matrices = (self.heads, self.head_dim, self.size)
        return StatePart((self.width - 1, self.channels)), StatePart(matrices, float32=True)


@dataclass(frozen=True, slots=True)
class BesideAttentionConfig:
    """Mamba 2 beside attention: both read the same rows, and what they give is added (Falcon-H1, arXiv 2507.22448).

    Attributes:
        mamba: of the one.
        mamba_factor: what it gives is multiplied with.
        attention_factor: likewise, of attention.
    """

    mamba: Mamba2Config
    mamba_factor: float
    attention_factor: float

    @property
    def channels(self) -> int:
        """Numbers of a row in the convolution."""
        return self.mamba.channels

    @property
    def state(self) -> tuple[StatePart, ...]:
        """That of Mamba 2."""
        return self.mamba.state


@dataclass(frozen=True, slots=True)
class NoMixerConfig:
    """Nothing: the layer is an MLP alone, as Nemotron-H has them.

    Attributes:
        channels: of a convolution: none.
    """

    channels: int = 0

    @property
    def state(self) -> tuple[StatePart, ...]:
        """No parts."""
        return ()


RecurrentConfig: TypeAlias = ShortConvConfig | GatedDeltaConfig | Mamba2Config | BesideAttentionConfig

# What each layer has in the place of attention, or beside it; None is attention alone.
Recurrent: TypeAlias = tuple[RecurrentConfig | NoMixerConfig | None, ...]


def distinct_recurrences(recurrent: Recurrent) -> tuple[ShortConvConfig | GatedDeltaConfig | Mamba2Config, ...]:
    """Return what layers have that stores a state, each once; what stands beside attention is Mamba 2."""
    alone = (own.mamba if isinstance(own, BesideAttentionConfig) else own for own in recurrent)
    return tuple(dict.fromkeys(own for own in alone if not isinstance(own, NoMixerConfig | None)))
