"""The decode actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.events import ActorStage
from actors.core.generation import FinishReason
from actors.core.life import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.hold import Hold
    from actors.generating.drafting import Drafting
    from actors.generating.output import Output
    from runtime.sampling.tokens import SampledToken


async def decode(hold: Hold, first: SampledToken | None, output: Output, drafting: Drafting | None) -> FinishReason:
    """Draw token after token, or verify draft after draft, until the output says that it is whole.

    There is no `first` where the prompt was all that was asked for.
    """
    if first is None:
        return FinishReason.LENGTH
    hold.turn_to(ActorStage.DECODE)
    tokens: Sequence[SampledToken] = (first,)
    while (reason := _take(tokens, hold, output)) is None:
        drafts = await drafting.propose(hold, output) if drafting else ()
        rows = (output.sequence[-1], *(draft.token_id for draft in drafts))
        phase = State.VERIFY if drafts else State.DECODE
        tokens = (await hold.submit(phase, rows, output.next_sample(rows[1:]), drafts)).tokens
        if drafting:
            drafting.observe(len(drafts), len(tokens) - 1)
    whole = len(output.sequence) - 1  # the last token was drawn, and never read
    if hold.length > whole:
        hold.trim(whole)
    return reason


def _take(tokens: Sequence[SampledToken], hold: Hold, output: Output) -> FinishReason | None:
    """Emit tokens up to the one that ends the output; why it does, or None."""
    reason, before = None, len(output)
    for token in tokens:
        reason = output.accept(token)
        if reason is not None:
            break
    hold.ticket.tell_emitted(len(output) - before)
    return reason
