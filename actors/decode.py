"""The decode actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.slots import SlotState

if TYPE_CHECKING:
    from actors.generation import FinishReason
    from actors.lease import Lease
    from actors.output import Output
    from runtime.step import SampledToken


async def decode(lease: Lease, first: SampledToken, output: Output) -> FinishReason:
    """Draw token after token until the output says that it is whole."""
    token = first
    while (reason := output.accept(token)) is None:
        chunk = await lease.submit(SlotState.DECODE, (token.token_id,), output.next_sample())
        (token,) = chunk.tokens
    return reason
