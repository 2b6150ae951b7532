"""The prefill actor."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from actors.core.events import ActorStage
from actors.core.life import State
from runtime.errors import StepFailed

if TYPE_CHECKING:
    from actors.core.hold import Hold
    from actors.generating.prompt_reading import PromptReading
    from runtime.sampling.tokens import SampledToken, SampleSpec

logger = logging.getLogger("cede.engine")


class Restoring(Protocol):
    """Brings KV of the prompt that exists elsewhere into the slot: `actors.kv.restore.Restoration`."""

    async def run(self) -> None:
        """Bring all there is, a bounded piece at a time."""

    async def audit(self) -> bool:
        """Compare what was computed again with what was cached; False if the slot's KV is not to be trusted."""

    async def give_up(self) -> None:
        """Have the slot emptied, what was brought never used again, and bring nothing more."""


async def prefill(
    hold: Hold, restoring: Restoring, sample: SampleSpec | None, reading: PromptReading
) -> SampledToken | None:
    """Bring into the slot what is cached of the prompt, read the rest of it, and return the first token.

    Without a sample there is none: the prompt is all that was asked for.  `reading` takes what the prompt gives besides
    KV.

    If that fails, what was cached is under suspicion: it is dropped, and the whole prompt is computed from a clean
    state.  The client only waits longer (seed 4).

    Raises:
        StepFailed: the device failed over rows that stand on nothing cached.
        DeviceLost: the device was lost since the grant.
    """
    try:
        token = await _read_prompt(hold, restoring, sample, reading)
        if await restoring.audit():
            return token
    except StepFailed as error:
        if not (hold.cached or hold.kept):
            raise
        logger.warning("request %s failed on cached KV (%s) and is read again", hold.request_id, error)
    await restoring.give_up()
    return await _read_prompt(hold, restoring, sample, reading)


async def _read_prompt(
    hold: Hold, restoring: Restoring, sample: SampleSpec | None, reading: PromptReading
) -> SampledToken | None:
    """Read one chunk after another from where the slot's KV ends.

    How large a chunk is, the slot manager says: it takes as many of the rows as the step has room for, and none where
    another request has read them meanwhile.  What was committed before a cancel stays in the slot for the retry.
    """
    reading.begin()
    await restoring.run()
    hold.turn_to(ActorStage.PREFILL)
    while True:
        chunk = await hold.submit(State.PREFILL, hold.prompt[hold.length :], sample, outputs=reading.outputs)
        reading.add(chunk)
        if chunk.rows and hold.length == len(hold.prompt):
            return chunk.tokens[0] if chunk.tokens else None
        if not chunk.rows:
            await restoring.run()
            hold.turn_to(ActorStage.PREFILL)
