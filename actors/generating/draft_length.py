"""How many tokens to draft: pure arithmetic on what steps take and on how often drafts are accepted.

A round of k drafts takes k steps of the drafter and one of the target, which reads k rows more than plain decoding
would.  If each draft is accepted with probability a given that those before it were, the round yields
E(k) = 1 + a + ... + a^k tokens (Leviathan et al., arXiv 2211.17192, equation 1).  The k that takes the least time per
token is drafted; where that is 0, the request decodes plainly, and tries again now and then at a cost that is a small
share of what plain decoding has taken since.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from actors.core.fit import FittedLine

MOST = 8  # drafts in a round
FIRST = 3  # before steps are measured

# Of a measured line: its memory is about 1 / (1 - FORGET) steps.
FORGET = 0.99
OUTLIER = 2.0  # a step that takes longer than so many times what was foreseen counts as that
SETTLED = 2.5  # steps before there is anything to foresee by
LITTLE_SPREAD = 4.0  # of the rows, their variance: below it the steps say little about what a row costs

MARGIN = 0.02  # what another k must save before it is taken, as a share
HORIZON = 128  # tokens over which a drafter's reading of what it has missed is to pay
COMPARE = 64  # rounds with drafts before one without, to see what that takes now

# What trying again may cost, as a share of plain decoding's time since: halved with each try that fails, to the least.
MOST_SHARE, LEAST_SHARE = 0.02, 0.0025
MISSES = 2  # rejected drafts that end a try
PAUSE = 32  # tokens between tries, at least
HOPE = 0.05  # how far each request begins towards what was expected of the first


class Acceptance:
    """The share of drafts that are accepted, among those whose predecessors in their round were; forgets exponentially.

    Args:
        rate: expected before any is seen.
        weight: how many drafts that expectation counts for.
        forget: each draft makes those before it count this much less.
    """

    def __init__(self, rate: float = 0.6, weight: float = 4.0, forget: float = 0.99) -> None:
        self._expected = rate
        self._accepted = rate * weight
        self._tried = weight
        self._forget = forget

    @property
    def rate(self) -> float:
        return self._accepted / self._tried

    def faded(self, weight: float, forget: float = 0.97) -> Acceptance:
        """An estimate of its own that begins at this one's rate, and soon goes by what it sees itself."""
        return Acceptance(self.rate, min(weight, self._tried), forget)

    def renew(self) -> None:
        """Believe a little more in what was expected at first, or a time without tries would last for ever."""
        self._accepted += HOPE * (self._expected * self._tried - self._accepted)

    def observe(self, proposed: int, accepted: int) -> None:
        """Learn from a round.  What was proposed after the first rejected draft says nothing."""
        for i in range(min(accepted + 1, proposed)):
            self._accepted = self._forget * self._accepted + (i < accepted)
            self._tried = self._forget * self._tried + 1


class _Line:
    """seconds = fixed + slope * rows, neither of which is ever negative.

    The slope is 0 at first: reading the weights is most of a small step.  The first step of about so many rows is left
    out: it pays for what is made once, memory here and compiled kernels elsewhere, and may take ten times as long.
    """

    def __init__(self) -> None:
        self._sizes: set[int] = set()  # of steps so far, in powers of two
        self._fit = FittedLine(FORGET, LITTLE_SPREAD)
        self._widest = 0  # rows

    def observe(self, rows: int, seconds: float) -> None:
        if rows.bit_length() not in self._sizes:
            self._sizes.add(rows.bit_length())
            return
        if self._fit.weight >= SETTLED and rows <= self._widest:  # what more rows take was not foreseen, only guessed
            seconds = min(seconds, OUTLIER * self._at(rows))
        self._widest = max(self._widest, rows)
        self._fit.add(rows, seconds)

    def seconds(self, rows: int) -> float | None:
        """None before the first step."""
        return self._at(rows) if self._fit.weight else None

    def _at(self, rows: int) -> float:
        fit = self._fit
        slope = min(fit.slope, fit.mean_y / fit.mean_x)  # or the fixed part would be negative
        return fit.mean_y + slope * (rows - fit.mean_x)


class StepCosts:
    """What steps take on this device, in seconds, by their number of rows; learnt from those that were run."""

    def __init__(self) -> None:
        self._draft = _Line()
        self._target = _Line()

    def observe_draft(self, rows: int, seconds: float) -> None:
        """Learn from a step of the drafter."""
        self._draft.observe(rows, seconds)

    def observe_target(self, rows: int, seconds: float) -> None:
        """Learn from a step of the target that read no prompt."""
        self._target.observe(rows, seconds)

    def draft_seconds(self, rows: int) -> float | None:
        """What a step of the drafter takes; None before the first was observed."""
        return self._draft.seconds(rows)

    def target_seconds(self, rows: int) -> float | None:
        """What a step of the target takes; None before the first was observed."""
        return self._target.seconds(rows)


@dataclass(frozen=True, slots=True)
class _Prices:
    """What one round takes, in seconds."""

    rounds: list[float]  # by the number of drafts, from 0
    catch_up: float  # what the drafter has to read first, once

    def per_token(self, rate: float) -> list[float]:
        """Seconds for each token that comes out, if drafts are accepted at this rate; by their number."""
        tokens = accumulate(rate**drafts for drafts in range(len(self.rounds)))
        seconds = [
            seconds / count + self.catch_up / HORIZON for seconds, count in zip(self.rounds, tokens, strict=True)
        ]
        return [self.rounds[0], *seconds[1:]]  # plain decoding needs no drafter


class DraftLength:
    """How many tokens to draft for one request, round by round.

    Args:
        fixed: always so many, instead of a measured choice (`--draft-tokens`).
        prior: what earlier requests saw of the same proposer; learns from this one too.
        free: drafts take no device time, as those of prompt lookup.
        most: never more than these.
    """

    def __init__(
        self, fixed: int | None = None, *, prior: Acceptance | None = None, free: bool = False, most: int = MOST
    ) -> None:
        self._fixed = fixed
        self._free = free
        self._most = most
        self._prior = prior or Acceptance()
        self._prior.renew()
        self._own = self._prior.faded(weight=4)
        self._drafts = min(FIRST, most)  # what was last found best; 0: decode plainly
        self._rounds = 0  # since that began to be, or ceased to be, 0
        self._tokens = 0  # since then, or since the last try
        self._misses_left = 0  # of the try under way
        self._share = MOST_SHARE

    def next(self, costs: StepCosts, others: int, behind: int = 0) -> int:
        """How many tokens the next round is to draft; 0 to decode plainly.

        Args:
            costs: of steps.
            others: how many other sequences generate now.
            behind: rows that the drafter must read before its first draft, besides the newest token.
        """
        if self._fixed is not None:
            return self._fixed
        prices = self._prices(costs, others, behind)
        if prices is None:
            return self._drafts
        best = self._best(prices)
        if bool(best) != bool(self._drafts):
            self._rounds = self._tokens = self._misses_left = 0
        self._drafts = best
        if best:
            return 0 if self._rounds % COMPARE == COMPARE - 1 else best
        return 1 if self._misses_left or self._may_try(prices) else 0

    def observe(self, proposed: int, accepted: int) -> None:
        """Learn how a round went; a plain one proposed nothing."""
        self._own.observe(proposed, accepted)
        self._prior.observe(proposed, accepted)
        self._rounds += 1
        self._tokens += accepted + 1
        if self._drafts:
            if self._tokens >= PAUSE:  # it did pay for a while
                self._share = MOST_SHARE
        elif self._misses_left:
            self._tokens = 0
            if accepted < proposed:
                self._misses_left -= 1

    def _prices(self, costs: StepCosts, others: int, behind: int) -> _Prices | None:
        """None while there is nothing to go by.

        The others are taken to draft as many: rows that pay for one sequence alone may cost all of them more than they
        bring it.
        """
        streams = others + 1
        draft = 0.0 if self._free else costs.draft_seconds(streams)
        catch_up = costs.draft_seconds(behind) if behind and not self._free else 0.0
        verify = [costs.target_seconds(streams * (drafts + 1)) for drafts in range(self._most + 1)]
        if draft is None or catch_up is None:
            return None
        rounds = [drafts * draft + seconds for drafts, seconds in enumerate(verify) if seconds is not None]
        return _Prices(rounds, catch_up) if rounds else None

    def _best(self, prices: _Prices) -> int:
        """The number of drafts that takes the least time per token; the last choice if it is about as good."""
        seconds = prices.per_token(self._own.rate)
        best = min(range(len(seconds)), key=seconds.__getitem__)
        stays = seconds[best] >= (1 - MARGIN) * seconds[self._drafts]
        return self._drafts if stays and (best or not self._drafts) else best

    def _may_try(self, prices: _Prices) -> bool:
        """Begin a try if plain decoding has gone on for long enough to bear it, should it fail."""
        if not self._most or self._tokens < PAUSE:
            return False
        price = MISSES * (prices.rounds[1] - prices.rounds[0])
        since = self._tokens * prices.rounds[0]
        if price > self._share * since or price + prices.catch_up > MOST_SHARE * since:
            return False
        self._tokens = 0
        self._misses_left = MISSES
        self._share = max(self._share / 2, LEAST_SHARE)
        self._own = self._own.faded(weight=2)  # it is to be believed what it sees
        return True
