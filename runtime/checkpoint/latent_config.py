"""The numbers that define latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """Attention whose keys and values are computed from a latent vector, which alone is stored.

    A head's query and key have a part that is not rotated and one that is, except in Kimi Linear.  This part of the key
    is the same for all heads, and stored beside the latent.

    Attributes:
        query_rank: numbers of the latent that queries are computed from; None where it is the hidden state itself.
        rank: numbers of the latent of keys and values.
        plain_dim: numbers of a query or key that are not rotated.
        rope_dim: those that are.
        value_dim: numbers of a value.
        scale: what attention logits are multiplied by.
        interleaved: the rotated pairs lie in the files as (0, 1), (2, 3), … and not as (i, i + rope_dim / 2).
    """

    query_rank: int | None
    rank: int
    plain_dim: int
    rope_dim: int
    value_dim: int
    scale: float
    interleaved: bool

    @property
    def query_dim(self) -> int:
        """Numbers of a head's query."""
        return self.plain_dim + self.rope_dim

    @property
    def stored_dim(self) -> int:
        """Numbers that are stored for a token: the latent, and the rotated part of its key."""
        return self.rank + self.rope_dim
