"""The prefill actor."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.core.events import ActorPhase
from actors.core.slots import SlotState
from runtime.errors import StepFailed

if TYPE_CHECKING:
    from actors.core.lease import Lease
    from runtime.sampling.tokens import SampledToken, SampleSpec

logger = logging.getLogger("cede.engine")


async def prefill(lease: Lease, sample: SampleSpec) -> SampledToken:
    """Bring into the slot what is cached of the prompt, read the rest of it, and return the first token.

    If that fails, what was cached is under suspicion: it is dropped, and the whole prompt is computed from a clean
    state.  The client only waits longer (seed 4).

    Raises:
        StepFailed: the device failed over rows that stand on nothing cached.
    """
    try:
        token = await _read_prompt(lease, sample)
        if await lease.manager.audit(lease):
            return token
    except StepFailed as error:
        if not lease.cached:
            raise
        logger.warning("request %s failed on cached KV (%s) and is read again", lease.request_id, error)
    lease.manager.restart(lease)
    return await _read_prompt(lease, sample)


async def _read_prompt(lease: Lease, sample: SampleSpec) -> SampledToken:
    """Read one chunk after another from where the slot's KV ends.

    How large a chunk is, the slot manager says: it takes as many of the rows as the step has room for, and none where
    another request has read them meanwhile.  What was committed before a cancel stays in the slot for the retry.
    """
    await lease.manager.restore(lease)
    lease.turn_to(ActorPhase.PREFILL)
    while True:
        chunk = await lease.submit(SlotState.PREFILL, lease.prompt[lease.length :], sample)
        if chunk.tokens:
            return chunk.tokens[0]
        if not chunk.rows:
            await lease.manager.restore(lease)
            lease.turn_to(ActorPhase.PREFILL)
