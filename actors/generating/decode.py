"""The decode actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.commands import Chunk, WasPreempted
from actors.core.events import ActorStage
from actors.core.generation import FinishReason
from actors.core.life import State
from actors.generating.prefill import prefill
from actors.generating.prompt_reading import PromptReading
from runtime.step.prompt_rows.wanted import NO_OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.hold import Hold
    from actors.core.reply import Reply
    from actors.generating.drafting import Drafting
    from actors.generating.output import Output
    from actors.generating.prefill import Restoring
    from runtime.sampling.tokens import SampledToken


async def decode(
    hold: Hold,
    first: SampledToken | None,
    output: Output,
    drafting: Drafting | None,
    restoration: Callable[[Hold], Restoring],
) -> FinishReason:
    """Draw token after token, or verify draft after draft, until the output says that it is whole.

    Args:
        hold: with the prompt's KV.
        first: token of the output; none where the prompt was all that was asked for.
        output: takes the tokens.
        drafting: proposes drafts; None for none.
        restoration: makes what brings back the KV of one that was preempted.
    """
    if first is None:
        return FinishReason.LENGTH
    hold.turn_to(ActorStage.DECODE)
    chunk = Chunk(0, (first,))
    while (reason := _take(chunk.tokens, hold, output)) is None:
        try:
            chunk = await _draw(hold, output, drafting, chunk.following)
        except WasPreempted:
            chunk = Chunk(0, await _go_on(hold, output, restoration(hold)))
    whole = len(output.sequence) - 1  # the last token was drawn; it was never read, or is in a step that runs
    if chunk.following is not None or hold.length > whole:
        hold.trim(whole)
    return reason


async def _draw(hold: Hold, output: Output, drafting: Drafting | None, following: Reply[Chunk] | None) -> Chunk:
    """Return the next token, behind the drafts that stood, or the next ones.

    Args:
        hold: as for `decode`.
        output: likewise.
        drafting: likewise.
        following: what becomes of the newest token, where it is in a step already.

    Raises:
        WasPreempted: the slot is another one now.
    """
    if following is not None:
        chunk = await hold.follow(following)
        if drafting:
            drafting.observe(0, len(chunk.tokens) - 1)
        return chunk
    drafts = await drafting.propose(hold, output) if drafting else ()
    drafted = [draft.token_id for draft in drafts]
    unread = output.sequence[hold.length :]  # the newest, behind accepted drafts that have left no state
    phase = State.VERIFY if drafts else State.DECODE
    most = output.most_tokens if drafting is None else min(output.most_tokens, drafting.rest)
    most = most if len(unread) == 1 else 1
    chunk = await hold.submit(phase, [*unread, *drafted], output.next_sample(drafted), drafts, most_tokens=most)
    if drafting:
        drafting.observe(len(drafts), len(chunk.tokens) - 1)
    return chunk


async def _go_on(hold: Hold, output: Output, restoring: Restoring) -> tuple[SampledToken, ...]:
    """Return the next token of one that was preempted: its sequence is a prompt, of which all but the end is cached."""
    reading = PromptReading(output.index, hold.prompt, NO_OUTPUTS, lambda _: None)
    token = await prefill(hold, restoring, output.next_sample(), reading)
    assert token is not None
    hold.turn_to(ActorStage.DECODE)
    return (token,)


def _take(tokens: Sequence[SampledToken], hold: Hold, output: Output) -> FinishReason | None:
    """Emit tokens up to the one that ends the output; why it does, or None."""
    reason, before = None, len(output)
    for token in tokens:
        reason = output.accept(token)
        if reason is not None:
            break
    hold.ticket.tell_emitted(len(output) - before)
    return reason
