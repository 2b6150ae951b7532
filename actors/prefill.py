"""The prefill actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.slots import SlotState

if TYPE_CHECKING:
    from actors.lease import Lease
    from runtime.step import SampledToken, SampleSpec


async def prefill(lease: Lease, sample: SampleSpec) -> SampledToken:
    """Read the prompt from where the slot's KV ends, one chunk at a time, and return the first token.

    How large a chunk is, the slot manager says: it takes as many of the rows as the step has room for.  What was
    committed before a cancel stays in the slot for the retry.
    """
    done = lease.cached
    while True:
        chunk = await lease.submit(SlotState.PREFILL, lease.prompt[done:], sample)
        done += chunk.rows
        if chunk.token is not None:
            return chunk.token
