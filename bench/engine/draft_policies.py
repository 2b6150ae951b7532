"""The parts of the choice of a draft length, compared on simulated machines and texts.

    python -m bench.engine.draft_policies [--seeds 2]

Nothing is timed: a machine is what its steps cost, a text is how likely drafts are accepted, and both are known.  So
the speed of a policy is compared with that of whoever knew them and took the best number of drafts, and figures are the
same on every computer.  A row is a policy: the one in use, the same less one of its parts, and fixed numbers that stop
drafting for a request once too few of its drafts were accepted.  A column is a kind of text, over all machines, alone
and beside three others: the mean share of the speed that was possible, and the least in parentheses.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from actors.core.commands import CATCH_UP
from actors.generating.draft_length import MAX_DRAFTS, Acceptance, DraftLength
from actors.scheduling.costs import StepCosts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.scheduling.costs import StepCostModel


@dataclass
class Machine:
    """Steps that cost a fixed part and so much for each row, in units of a plain step, and now and then more.

    Attributes:
        draft, draft_row: a step of the drafter, and each of its rows but the first.
        row: of a step of the target, each row but the first.
        others: sequences that generate besides, and draft as much.
        noise: a step takes up to this share more or less, and one in a hundred five times as long.
        random: what is drawn, of the noise and of the text.
        costs: what was learnt of it.
    """

    draft: float = 0.1
    draft_row: float = 0.003
    row: float = 0.03
    others: int = 0
    noise: float = 0.1
    random: random.Random = field(default_factory=lambda: random.Random(2))
    costs: StepCosts = field(default_factory=StepCosts)

    @property
    def drafter(self) -> StepCostModel | None:
        """The cost model of the drafter; None if drafts are looked up."""
        return self.costs.drafter if self.draft else None

    def draft_seconds(self, rows: int) -> float:
        """Return the seconds of a step of the drafter."""
        return self.draft + self.draft_row * (rows - 1)

    def target_seconds(self, rows: int) -> float:
        """Return the seconds of a step of the target."""
        return 1 + self.row * (rows - 1)

    def round_seconds(self, drafts: int, behind: int, *, learn: bool = True) -> float:
        """Return the seconds of a round of one stream beside others like it, from which the cost models learn."""
        streams = self.others + 1
        rows = streams * (drafts + 1)
        total = self.target_seconds(rows)
        if learn:
            self.costs.target.observe(rows, 0, 0, self._noisy(total))
        for _ in range(drafts):
            total += self._draft(streams, 0, learn)
        if drafts and behind > CATCH_UP:
            total += self._draft(0, behind, learn)
        elif drafts and behind:
            total += self._draft(behind, 0, learn)
        return total

    def _draft(self, rows: int, chunk: int, learn: bool) -> float:
        seconds = self.draft_seconds(rows + chunk)
        if learn:
            self.costs.drafter.observe(rows, chunk, 0, self._noisy(seconds))
        return seconds

    def _noisy(self, seconds: float) -> float:
        late = 5 if self.random.random() < 0.01 else 1  # the garbage collector, or a neighbour on the machine
        return seconds * late * self.random.uniform(1 - self.noise, 1 + self.noise)


MACHINES: dict[str, dict[str, Any]] = {
    "cheap drafts": {"draft": 0.05},
    "dear drafts": {"draft": 0.4},
    "lookup": {"draft": 0.0, "draft_row": 0.0},
    "dear rows": {"draft": 0.1, "row": 0.25},
    "dear lookups": {"draft": 0.0, "draft_row": 0.0, "row": 0.3},
    "noisy": {"draft": 0.15, "noise": 0.4},
}


def generate(
    length: DraftLength, machine: Machine, rate: Callable[[int], float], tokens: int, prompt: int = 0
) -> float:
    """Generate tokens, and return the seconds for each.

    Args:
        length: the policy.
        machine: what steps cost.
        rate: the probability that a draft is accepted, by the number of tokens before it.
        tokens: to generate.
        prompt: tokens before them that the drafter has not read.
    """
    seconds, written, read = 0.0, 0, -prompt
    while written < tokens:
        behind = max(0, written - read - 1)
        drafts = length.next(machine.costs.target, machine.drafter, machine.others, behind)
        accepted = 0
        while accepted < drafts and machine.random.random() < rate(written + accepted):
            accepted += 1
        seconds += machine.round_seconds(drafts, behind)
        if drafts:
            read = written + accepted
        written += accepted + 1
        length.observe(drafts, accepted)
    return seconds / written


def best_seconds(machine: Machine, rate: float) -> float:
    """Return the expected seconds per token with the best number of drafts, without noise."""
    return min(
        machine.round_seconds(drafts, 0, learn=False) / sum(rate**i for i in range(drafts + 1))
        for drafts in range(MAX_DRAFTS + 1)
    )


@dataclass(frozen=True)
class Text:
    """Requests one after another, each as phases of (acceptance, tokens), after a prompt of `prompt` tokens."""

    name: str
    requests: Sequence[Sequence[tuple[float, int]]]
    prompt: int = 0


def texts(seed: int) -> list[Text]:
    """Make the kinds of text that policies are compared on."""
    draw = random.Random(seed)
    steady = [Text(f"steady {rate}", [[(rate, 200)]] * 10) for rate in (0.02, 0.3, 0.5, 0.7, 0.9)]
    return [
        *steady,
        Text("mixed", [[(draw.choice((0.02, 0.3, 0.6, 0.9)), 200)] for _ in range(20)]),
        Text("bad, then good", [[(0.05, 600), (0.95, 1400)]] * 3),
        Text("good, then bad", [[(0.95, 600), (0.05, 1400)]] * 3),
        Text("in turns", [[(0.05, 200), (0.95, 200)] * 5] * 2),
        Text("20 bad, 20 good", [[(0.02, 200)]] * 20 + [[(0.9, 200)]] * 20),
        Text("short", [[(0.02, 40)]] * 20 + [[(0.9, 40)]] * 20, prompt=50),
    ]


class WithoutTries(DraftLength):
    """The policy in use, without tries: once drafts do not pay, it never drafts again."""

    def _may_try(self, prices: object) -> bool:
        return False


class _NotRenewed(Acceptance):
    def renew(self) -> None:
        """Keep the estimate as it is."""


class _Shared(Acceptance):
    def for_request(self) -> Acceptance:
        """Return the same estimate for all requests."""
        return self


class FixedWithCutOff(DraftLength):
    """A fixed number of drafts, until fewer than 30 % of a request's drafts, after twelve or more, were accepted."""

    drafts = 4

    def __init__(self, *, prior: Acceptance) -> None:
        super().__init__(prior=prior)
        self._tried = self._accepted = 0

    def next(self, target: StepCostModel, drafter: StepCostModel | None, others: int, behind: int = 0) -> int:
        """Return the fixed number, or 0 once too few drafts were accepted."""
        return 0 if self._tried >= 12 and self._accepted < 0.3 * self._tried else self.drafts

    def observe(self, drafted: int, accepted: int) -> None:
        """Count drafts up to the first rejected one."""
        self._tried += min(accepted + 1, drafted)
        self._accepted += accepted


class Fixed2(FixedWithCutOff):
    """A fixed number of two drafts."""

    drafts = 2


class Fixed8(FixedWithCutOff):
    """A fixed number of eight drafts."""

    drafts = 8


@dataclass(frozen=True)
class Policy:
    """A policy, and the estimate that its requests begin with."""

    name: str
    length: Callable[..., DraftLength] = DraftLength
    prior: Callable[[], Acceptance] = Acceptance


POLICIES = (
    Policy("in use"),
    Policy("without tries", WithoutTries),
    Policy("without renewal", prior=_NotRenewed),
    Policy("without an estimate per request", prior=_Shared),
    Policy("fixed 2, cut-off", Fixed2),
    Policy("fixed 4, cut-off", FixedWithCutOff),
    Policy("fixed 8, cut-off", Fixed8),
)


def share(policy: Policy, text: Text, machine: Machine) -> float:
    """Return a policy's speed on a text as a share of the best possible speed."""
    prior = policy.prior()
    taken = possible = 0.0
    for phases in text.requests:
        tokens = sum(length for _, length in phases)
        rates = [rate for rate, length in phases for _ in range(length)]
        length = policy.length(prior=prior)
        taken += tokens * generate(length, machine, _rate_of(rates), tokens, text.prompt)
        possible += sum(best_seconds(machine, rate) * length for rate, length in phases)
    return possible / taken


def _rate_of(rates: Sequence[float]) -> Callable[[int], float]:
    return lambda at: rates[min(at, len(rates) - 1)]


def shares(policy: Policy, seeds: int) -> dict[str, list[float]]:
    """Return the shares by the text's name, over all machines."""
    found: dict[str, list[float]] = {}
    for seed in range(1, seeds + 1):
        for text in texts(seed):
            for machine in MACHINES.values():
                for others in (0, 3):
                    run = Machine(**machine, others=others, random=random.Random(seed))
                    found.setdefault(text.name, []).append(share(policy, text, run))
    return found


@click.command(help=__doc__)
@click.option("--seeds", default=2, show_default=True, help="Repetitions with different random numbers.")
def main(seeds: int) -> None:
    """Print the table."""
    click.echo(f"| policy | {' | '.join(text.name for text in texts(1))} | mean |")
    click.echo("|---|" + "---|" * (len(texts(1)) + 1))
    for policy in POLICIES:
        found = shares(policy, seeds)
        cells = [f"{statistics.mean(values):.2f} ({min(values):.2f})" for values in found.values()]
        mean = statistics.mean(statistics.mean(values) for values in found.values())
        click.echo(f"| {policy.name} | {' | '.join(cells)} | {mean:.3f} |")


if __name__ == "__main__":
    main()
