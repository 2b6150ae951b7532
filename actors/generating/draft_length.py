"""Length of drafts: pure arithmetic on what steps take and on how often drafts are accepted.

A round of k drafts takes k steps of the drafter and one of the target, which reads k rows more than plain decoding
would.  If each draft is accepted with probability a given that those before it were, the round yields
E(k) = 1 + a + ... + a^k tokens (Leviathan et al., arXiv 2211.17192, equation 1).  The k that takes the least time per
token is drafted.  Where that is 0 the request decodes plainly, and tries one draft again now and then, at a cost that
is a small share of what plain decoding has taken since: a text may become easy to foresee.

Where layers are recurrent, a round may leave fewer states than it has drafts.  Accepted drafts behind the last one are
rows of the next round, too, and count as such.

What each part brings is measured by `python -m bench.engine.draft_policies`; the figures are in bench/LOG.md, "What a
step costs, and how many tokens to draft".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from actors.core.places.state_pool import kept_drafts

if TYPE_CHECKING:
    from actors.scheduling.costs import StepCostModel

MAX_DRAFTS = 8  # in a round
FIRST_DRAFTS = 2  # in a round, before steps are measured
CATCH_UP_TOKENS = 128  # over which a drafter's reading of what it has missed is to pay
TRY_SHARE = 0.02  # of the time that plain decoding has taken since the last try: what the next may cost
TRY_PAUSE = 32  # tokens between two tries, at least

PRIOR_RATE, PRIOR_DRAFTS = 0.6, 4.0  # acceptance expected before any draft is seen, and how many drafts that counts for
PRIOR_MEMORY, OWN_MEMORY = 0.99, 0.97  # each draft makes those before it count this much less
RENEWAL = 0.05  # how far each request begins towards the acceptance expected at first


class Acceptance:
    """The share of drafts that are accepted, among those whose predecessors in their round were; forgets exponentially.

    Args:
        rate: expected before any is seen.
        weight: how many drafts that expectation counts for.
        memory: each draft makes those before it count this much less.
    """

    def __init__(self, rate: float = PRIOR_RATE, weight: float = PRIOR_DRAFTS, memory: float = PRIOR_MEMORY) -> None:
        self._expected = rate
        self._accepted = rate * weight
        self._seen = weight
        self._memory = memory

    @property
    def rate(self) -> float:
        """The estimate, from 0 to 1."""
        return self._accepted / self._seen

    def for_request(self) -> Acceptance:
        """Return an estimate for one request, which begins at this rate and soon goes by what it sees itself."""
        return Acceptance(self.rate, min(PRIOR_DRAFTS, self._seen), OWN_MEMORY)

    def renew(self) -> None:
        """Move a little towards what was expected at first, or requests too short for a try would never draft again."""
        self._accepted += RENEWAL * (self._expected * self._seen - self._accepted)

    def observe(self, drafted: int, accepted: int) -> None:
        """Learn from a round.  What was drafted after the first rejected token says nothing."""
        for i in range(min(accepted + 1, drafted)):
            self._accepted = self._memory * self._accepted + (i < accepted)
            self._seen = self._memory * self._seen + 1


@dataclass(frozen=True, slots=True)
class _Prices:
    """Seconds that one round takes."""

    rounds: list[float]  # by the number of drafts, from 0
    catch_up: float  # what the drafter has to read first, once

    def per_token(self, rate: float) -> list[float]:
        """Seconds for each token that comes out, if drafts are accepted at this rate; by their number."""
        tokens = accumulate(rate**drafts for drafts in range(len(self.rounds)))
        seconds = [
            seconds / count + self.catch_up / CATCH_UP_TOKENS
            for seconds, count in zip(self.rounds, tokens, strict=True)
        ]
        return [self.rounds[0], *seconds[1:]]  # plain decoding needs no drafter


class DraftLength:
    """Number of tokens to draft for one request, round by round.

    Args:
        fixed: always so many, instead of a measured choice (`--draft-tokens`).
        prior: what earlier requests saw of the same drafter; learns from this one too.
        max_drafts: never more than these.
        states: that a round may leave, of recurrent layers.
    """

    def __init__(
        self,
        fixed: int | None = None,
        *,
        prior: Acceptance | None = None,
        max_drafts: int = MAX_DRAFTS,
        states: int = MAX_DRAFTS + 1,
    ) -> None:
        self._fixed = fixed
        self._max_drafts = max_drafts
        self._states = states
        self._prior = prior or Acceptance()
        self._prior.renew()
        self._own = self._prior.for_request()
        self._plain_tokens = 0  # since drafts ceased to pay, or since the last try
        self._trying = False

    def next(self, target: StepCostModel, drafter: StepCostModel | None, others: int, behind: int = 0) -> int:
        """Return how many tokens the next round is to draft; 0 to decode plainly.

        Args:
            target: costs of the model that verifies.
            drafter: costs of the model that drafts; None where drafts take no device time.
            others: how many other sequences generate now.
            behind: rows that the drafter must read before its first draft, besides the newest token.
        """
        if self._fixed is not None:
            return self._fixed
        prices = self._prices(target, drafter, others, behind)
        if prices is None:
            return min(FIRST_DRAFTS, self._max_drafts)
        seconds = prices.per_token(self._own.rate)
        best = min(range(len(seconds)), key=seconds.__getitem__)
        if best:
            self._plain_tokens, self._trying = 0, False
            return best
        self._trying = self._trying or self._may_try(prices)
        return int(self._trying)

    def observe(self, drafted: int, accepted: int) -> None:
        """Learn how a round went; a plain one drafted nothing."""
        self._own.observe(drafted, accepted)
        self._prior.observe(drafted, accepted)
        self._plain_tokens += accepted + 1
        if drafted and self._trying:
            self._plain_tokens, self._trying = 0, accepted == drafted  # a try goes on while it succeeds

    def _prices(self, target: StepCostModel, drafter: StepCostModel | None, others: int, behind: int) -> _Prices | None:
        """None while there is nothing to go by.

        The others are taken to draft as many: rows that pay for one sequence alone may cost all of them more than they
        bring it.
        """
        streams = others + 1
        draft: float | None = 0.0
        catch_up: float | None = 0.0
        if drafter is not None:
            draft = drafter.seconds(streams)
            catch_up = drafter.seconds(0, chunk=behind) if behind else 0.0
        if draft is None or catch_up is None:
            return None
        rows = [1 + drafts + self._read_again(drafts) for drafts in range(self._max_drafts + 1)]
        verify = [target.seconds(streams * each) for each in rows]
        rounds = [drafts * draft + seconds for drafts, seconds in enumerate(verify) if seconds is not None]
        return _Prices(rounds, catch_up) if rounds else None

    def _read_again(self, drafts: int) -> float:
        """Return how many accepted drafts of a round are expected to be rows of the next one.

        Each is that is accepted, unless all are up to the next one that leaves a state.
        """
        if drafts < self._states:
            return 0.0
        rate, kept = self._own.rate, kept_drafts(drafts, self._states)
        return sum(rate**i - rate ** next(one for one in kept if one >= i) for i in range(1, drafts + 1))

    def _may_try(self, prices: _Prices) -> bool:
        """Return whether plain decoding has gone on for long enough to bear a try that fails."""
        if not self._max_drafts or self._plain_tokens < TRY_PAUSE:
            return False
        price = prices.rounds[1] - prices.rounds[0] + prices.catch_up
        return price <= TRY_SHARE * self._plain_tokens * prices.rounds[0]
