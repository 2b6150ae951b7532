"""Test by chi-square of whether what was drawn fits what it should have been drawn from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from runtime.sampling.params import SamplingParams

TOO_FEW = 5  # expected of a cell: below that chi-square's distribution is not that of the sum


def filtered(logits: Sequence[float], params: SamplingParams) -> list[float]:
    """Return what is drawn from, in float64: top-k, top-p of those, and min-p; equal tokens stand or fall together."""
    most = max(logits)
    exponentials = [math.exp((logit - most) / params.temperature) for logit in logits]
    total = sum(exponentials)
    probs = [exponential / total for exponential in exponentials]
    ranked = sorted(probs, reverse=True)
    candidates = ranked[: params.top_k or len(ranked)]
    kept, mass = candidates[:1], candidates[0]
    for prob in candidates[1:]:
        if (mass < params.top_p * sum(candidates) or params.top_p == 1) and prob >= params.min_p * ranked[0]:
            kept.append(prob)
        mass += prob
    remaining = [prob if prob >= kept[-1] else 0.0 for prob in probs]
    return [prob / sum(remaining) for prob in remaining]


def chi_square(counts: Counter[int], probs: Sequence[float]) -> tuple[float, float]:
    """The statistic of `counts` of tokens that have `probs`, and its limit.

    Tokens too rare to be counted each by itself are counted together.
    """
    total = counts.total()
    if any(probs[token] == 0 for token in counts):
        return math.inf, 0.0
    cells = [(counts[token], total * p) for token, p in enumerate(probs) if p > 0]
    rare = [cell for cell in cells if cell[1] < TOO_FEW]
    cells = [cell for cell in cells if cell[1] >= TOO_FEW]
    if rare:
        cells.append((sum(count for count, _ in rare), sum(expected for _, expected in rare)))
    return sum((count - expected) ** 2 / expected for count, expected in cells), limit(len(cells) - 1)


def limit(degrees: int) -> float:
    """Return what chi-square exceeds by chance once in 1000 seeds (those of the tests are fixed).

    By Wilson and Hilferty's approximation (PNAS 17, 1931), which is 3 % too high for one degree of freedom and far
    better for more.
    """
    if not degrees:
        return 1e-9  # all that can be drawn is one token
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + 3.0902 * math.sqrt(spread)) ** 3
