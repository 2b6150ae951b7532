"""The random numbers that tokens are drawn by: functions of a seed and a position, and of nothing else."""

from __future__ import annotations

# A position has several random numbers, each independent of the others: the token's own; the draft's, where the token
# must not depend on the number that the draft was drawn by; and the one that decides whether such a draft stands.
TOKEN_STREAM, DRAFT_STREAM, REJECTION_STREAM = range(3)

_MASK64 = (1 << 64) - 1


def splitmix64(state: int) -> int:
    """Return one output of SplitMix64 (Steele et al., OOPSLA 2014) for the 64-bit `state`."""
    z = (state + 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def uniform(seed: int, position: int, stream: int = TOKEN_STREAM) -> float:
    """Return a number in (0, 1) for this seed and position (below 2^48), in one of several independent streams.

    It has 22 bits and a half: so short of 1 that its float32 product with a total is always below that total.
    """
    bits = splitmix64(splitmix64(seed & _MASK64) ^ (stream << 48) ^ position) >> 42
    return (bits + 0.5) / (1 << 22)
