"""A straight line through what was measured, by least squares that forget exponentially."""

from __future__ import annotations


class FittedLine:
    """y = mean_y + slope * (x - mean_x), of which the slope is never negative.

    The slope follows the points the slower, the less they differ in x; while they do not, it stays what it was, at
    first 0.

    Args:
        forget: each point makes those before it count this much less; the memory is about 1 / (1 - forget) points.
        little_spread: a variance of x; below it the points say little about the slope.
    """

    def __init__(self, forget: float, little_spread: float) -> None:
        self.weight = 0.0  # points, those before the last in part
        self.mean_x = self.mean_y = 0.0
        self.slope = 0.0
        self._forget = forget
        self._little_spread = little_spread
        self._spread = self._common = 0.0  # variance of x, covariance with y

    def add(self, x: float, y: float) -> None:
        """Take in a point."""
        self.weight = self._forget * self.weight + 1
        share = 1 / self.weight
        right, up = x - self.mean_x, y - self.mean_y
        self.mean_x += share * right
        self.mean_y += share * up
        self._spread = (1 - share) * (self._spread + share * right * right)
        self._common = (1 - share) * (self._common + share * right * up)
        steeper = (self._common - self.slope * self._spread) / (self._spread + self._little_spread)
        self.slope = max(self.slope + steeper, 0.0)
