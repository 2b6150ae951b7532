"""The draft actor: proposes what the target is to verify, and decides how much is worth proposing."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from actors.core.events import ActorStage
from actors.core.life import State
from actors.generating.draft_length import TRY_PAUSE
from runtime.errors import StepFailed
from runtime.sampling.tokens import DraftToken
from runtime.text.lookup import PromptLookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.hold import Hold
    from actors.generating.draft_length import DraftLength
    from actors.generating.output import Output
    from actors.scheduling.costs import StepCostModel

logger = logging.getLogger("cede.engine")


class DraftSource(Protocol):
    """Source of drafts."""

    async def propose(self, hold: Hold, output: Output, most: int) -> list[DraftToken]:
        """At most so many tokens that may follow the output."""

    def behind(self, hold: Hold, output: Output) -> int:
        """Return how many tokens it has to read, besides the newest, before it can propose any."""


class LookupSource:
    """Looks the output's last tokens up in what came before; no device work.

    Args:
        prediction: what the output probably is; it counts as having come before all else.
    """

    def __init__(self, prediction: Sequence[int] = ()) -> None:
        self._lookup = PromptLookup()
        self._lookup.extend(prediction)
        self._predicted = len(prediction)

    async def propose(self, hold: Hold, output: Output, most: int) -> list[DraftToken]:
        """Return what followed the last place where the output's end stood before, as far as its grammar allows."""
        self._lookup.extend(output.sequence[len(self._lookup) - self._predicted :])
        found = self._lookup.propose(most)
        if output.constraint is not None:
            found = found[: output.constraint.count_valid(found)]
        return [DraftToken(token_id) for token_id in found]

    def behind(self, hold: Hold, output: Output) -> int:
        """Return 0: there is nothing to read."""
        return 0


class ModelSource:
    """Drafts with a model: each token is a device step, between any two of which cancels are seen (seed 3)."""

    async def propose(self, hold: Hold, output: Output, most: int) -> list[DraftToken]:
        """Draw one token after the other, until there are so many or one ends the output.

        None while accepted drafts are to be read again: it would go on from what is not committed.  Each is drawn under
        the very mask that verifies it: a draft that was drawn freely and cut afterwards would bias what rejection
        sampling makes of it.

        Raises:
            StepFailed: the device failed over these rows.
        """
        if hold.length + 1 < len(output.sequence):
            return []
        spec = output.next_sample()
        for_rejection = spec.params.temperature > 0 and not spec.params.reproducible
        spec = replace(spec, params=replace(spec.params, logprobs=None), for_rejection=for_rejection)
        drafts: list[DraftToken] = []
        while len(drafts) < most:
            drafted = [draft.token_id for draft in drafts]
            unread = drafted[-1:] or output.sequence[hold.draft_start :]
            spec = replace(spec, masks=output.masks(drafted))
            chunk = await hold.submit(State.DRAFT, unread, spec.after(drafted))
            for token in chunk.tokens:
                drafts.append(DraftToken(token.token_id, token.distribution))
                if output.ends_with([*drafted, token.token_id]):
                    return drafts
        return drafts

    def behind(self, hold: Hold, output: Output) -> int:
        """Return how many tokens the drafter has to read, besides the newest."""
        return len(output.sequence) - hold.draft_start - 1


class Drafting:
    """One generation's drafts: from where, and how many at a time.

    Attributes:
        rest: how many tokens may be drawn before drafts are looked for again: one, or more while plain decoding is
            faster.

    Args:
        source: proposes them.
        length: how many are worth it.
        target: costs of the model that verifies.
        drafter: costs of the model that drafts; None where drafts take no device time.
        forced: how many tokens are worth it that a grammar forces; they are drafts for nothing, which the target can
            only spell in another way.
    """

    def __init__(
        self,
        source: DraftSource,
        length: DraftLength,
        target: StepCostModel,
        drafter: StepCostModel | None,
        forced: DraftLength,
    ) -> None:
        self.rest = 1
        self._source: DraftSource | None = source
        self._length = length
        self._forced = forced
        self._used = length  # in the last round
        self._target = target
        self._drafter = drafter

    async def propose(self, hold: Hold, output: Output) -> Sequence[DraftToken]:
        """Return what the target is to verify next; empty where plain decoding is faster.

        A fault while drafting costs the rest of this generation its drafts, and nothing else.
        """
        self.rest = 1
        if forced := self._propose_forced(hold, output):
            self._used = self._forced
            return forced
        self._used = self._length
        if self._source is None:
            self.rest = TRY_PAUSE
            return ()
        behind = self._source.behind(hold, output)
        wanted = self._length.next(self._target, self._drafter, hold.neighbours, behind)
        most = min(wanted, output.tokens_left - 1)  # a round gives one token more than it accepts
        if most <= 0:
            self.rest = TRY_PAUSE
            return ()
        hold.turn_to(ActorStage.DRAFTING)
        try:
            return await self._source.propose(hold, output, most)
        except StepFailed as error:
            logger.warning("request %s goes on without drafts: %s", hold.request_id, error)
            self._source = None
            return ()
        finally:
            hold.turn_to(ActorStage.DECODE)

    def _propose_forced(self, hold: Hold, output: Output) -> list[DraftToken]:
        forced = [] if output.constraint is None else output.constraint.forced()
        if not forced:
            return []
        most = min(self._forced.next(self._target, None, hold.neighbours), output.tokens_left - 1)
        return [DraftToken(token_id) for token_id in forced[: max(most, 0)]]

    def observe(self, proposed: int, accepted: int) -> None:
        """Learn how a round went; one without drafts drew a single token."""
        self._used.observe(proposed, accepted)
