"""The numbers that define a recurrent layer, in modules that do not import torch.

Such a layer stands in the place of attention.  It stores no keys and values, but a state of each sequence: a few parts
of a fixed size, however long the sequence is.
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


RecurrentConfig: TypeAlias = ShortConvConfig

# What each layer has in the place of attention; None is attention itself.
Recurrent: TypeAlias = tuple[RecurrentConfig | None, ...]
