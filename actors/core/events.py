"""What an `Observer` is told: one frozen dataclass for each of its hooks.

Plain data only, so that a listener may keep it.  Times are seconds on the executor's clock; tokens, rows and blocks are
counted in tokens of the sequence unless a name says otherwise.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.core.life import State
    from actors.core.receipts import CancelReason
    from runtime.errors import CedeError
    from runtime.kv.blocks import BlockKey
    from runtime.step.step import StepResult
    from runtime.step.transfer import Transfer


class ActorPhase(enum.StrEnum):
    """What the task of a generation is at."""

    WAITING = "waiting"  # for the grant of a slot
    RESTORING = "restoring"  # has KV that exists elsewhere brought into its slot
    FETCHING = "fetching"  # reads blocks of KV from a tier, for that
    PREFILL = "prefill"
    DECODE = "decode"
    DRAFTING = "drafting"
    LEAVING = "leaving"  # has ended, and waits until its slot is taken back


@dataclass(frozen=True, slots=True)
class GenerationEvent:
    """An event of one generation: which one it is."""

    request_id: str
    index: int

    @property
    def owner(self) -> tuple[str, int]:
        """The generation's identity."""
        return self.request_id, self.index


@dataclass(frozen=True, slots=True)
class Queued(GenerationEvent):
    """It has a place in the queue, behind all that were queued before."""

    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was not let into the queue, none of its generations."""

    request_id: str
    generations: int
    error: CedeError


@dataclass(frozen=True, slots=True)
class Leader:
    """A generation that is reading a prefix which another's prompt shares, `shared_tokens` long."""

    request_id: str
    index: int
    shared_tokens: int


@dataclass(frozen=True, slots=True)
class Granted(GenerationEvent):
    """It has a slot, which holds KV of the first `cached_tokens` of its prompt.

    While one of its `leaders` reads what both prompts share, its own rows wait.
    """

    slot: int
    cached_tokens: int
    leaders: tuple[Leader, ...]


@dataclass(frozen=True, slots=True)
class PhaseBegun(GenerationEvent):
    """Its task turns to something else; told within that task."""

    phase: ActorPhase


@dataclass(frozen=True, slots=True)
class Submitted(GenerationEvent):
    """It wants so many rows run, of which `is_bulk` ones may be served in part."""

    phase: State
    rows: int
    is_bulk: bool


@dataclass(frozen=True, slots=True)
class HandedBack(GenerationEvent):
    """The rows it submitted were not run: another generation has read them, and they may be copied."""


@dataclass(frozen=True, slots=True)
class StepPart(GenerationEvent):
    """One generation's rows in a step: `token_ids` at positions from `start` on.

    The last `drafts` of them are to be verified.
    """

    phase: State
    slot: int
    start: int
    token_ids: tuple[int, ...]
    drafts: int


@dataclass(frozen=True, slots=True)
class StepEvent:
    """An event of one step, on the target or on the drafter; `number` counts each model's from 1, failed ones too."""

    number: int
    drafting: bool


@dataclass(frozen=True, slots=True)
class StepBegins(StepEvent):
    """What the step runs."""

    parts: tuple[StepPart, ...]


@dataclass(frozen=True, slots=True)
class LayerDone(StepEvent):
    """A layer of it has ended; layers count from 0."""

    layer: int


@dataclass(frozen=True, slots=True)
class StepEnded(StepEvent):
    """It ran; `result` has an entry for each of its parts."""

    result: StepResult


@dataclass(frozen=True, slots=True)
class StepRaised(StepEvent):
    """It raised, and nothing of it is committed."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Committed(GenerationEvent):
    """KV of so many `rows`, at positions from `start` on, is valid in its slot; with `drafting` the drafter's KV.

    Of `drafted` tokens that were verified, `accepted` ones are among the rows.
    """

    slot: int
    drafting: bool
    start: int
    rows: int
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Invalidated(GenerationEvent):
    """All that its slot held is given up, and none of it will be used again."""

    slot: int


@dataclass(frozen=True, slots=True)
class SavedBlock:
    """A block that is copied out of a slot, where it begins at position `start`."""

    key: BlockKey
    slot: int
    start: int


@dataclass(frozen=True, slots=True)
class TransferBegins:
    """Pieces of KV are moved, in this order; the first of them copy the blocks `saved` out of their slots."""

    transfers: tuple[Transfer, ...]
    saved: tuple[SavedBlock, ...]


@dataclass(frozen=True, slots=True)
class TransferEnded:
    """The device has moved what it could of that."""


@dataclass(frozen=True, slots=True)
class Moved(GenerationEvent):
    """KV of so many `tokens`, at positions from `start` on, was moved into its slot and is valid."""

    slot: int
    start: int
    tokens: int


@dataclass(frozen=True, slots=True)
class AuditFailed(GenerationEvent):
    """KV that was cached is not what computing it again gives.  What came from the blocks `keys` is given up."""

    keys: frozenset[BlockKey]


@dataclass(frozen=True, slots=True)
class Cancelled(GenerationEvent):
    """It ends before it is done; no later layer is to have its rows."""

    at: float


@dataclass(frozen=True, slots=True)
class Released(GenerationEvent):
    """It is over, and the slot that it held is free; `slot` is None if it never had one.

    `reason` is None if it was not cancelled.  The token counts are those of the receipt.
    """

    slot: int | None
    reason: CancelReason | None
    computed_tokens: int
    committed_tokens: int


@dataclass(frozen=True, slots=True)
class DeviceIsLost:
    """No step can run.  Whoever holds a slot ends with it; who is queued does unless `queue_waits` for its return."""

    reason: str
    queue_waits: bool


@dataclass(frozen=True, slots=True)
class DeviceIsBack:
    """Steps can run again; nothing of the KV in the slots has outlived the loss."""
