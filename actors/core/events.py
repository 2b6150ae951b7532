"""Events that an `Observer` is told: a frozen dataclass for each of its hooks, which are the fields of `Hooks`.

Nothing of the engine's own goes out with an event, so a listener may keep it.  Times are seconds on the executor's
clock.  A position counts tokens from the start of a sequence; rows are positions that a step computes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.core.generation import Failed, Finished, GenerationRequest
    from actors.core.life import State
    from actors.core.receipts import CancelReason, Receipt
    from actors.core.slot_views import GenerationKey
    from runtime.errors import CedeError
    from runtime.kv.blocks import BlockKey
    from runtime.step.step import StepResult
    from runtime.step.transfer import Transfer

EventT = TypeVar("EventT")


class ActorStage(enum.StrEnum):
    """Stage that the task of a generation is at."""

    WAITING = "waiting"  # for the grant of a slot
    RESTORING = "restoring"  # waits while cached KV is moved into its slot
    FETCHING = "fetching"  # reads blocks of KV from memory or disk, to restore them
    PREFILL = "prefill"
    DECODE = "decode"
    DRAFTING = "drafting"
    LEAVING = "leaving"  # waits until its slot is taken back


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request came to the engine, which has not looked at it yet; told in the task that opened it."""

    asked: GenerationRequest


@dataclass(frozen=True, slots=True)
class Departed:
    """Nothing is left of a request in the engine; `asked` is the very object that `Arrived` had.

    Its response was sent or given up.  Told in the task that opened it.
    """

    asked: GenerationRequest


@dataclass(frozen=True, slots=True)
class GenerationEvent:
    """An event of one generation: number `index` of a request."""

    request_id: str
    index: int

    @property
    def key(self) -> GenerationKey:
        """The generation's identity."""
        return self.request_id, self.index


@dataclass(frozen=True, slots=True)
class Queued(GenerationEvent):
    """A generation joined the queue; `owner` is the name of the API key that asked.

    Those that go first are served before all others; in one owner's line, the lower number goes before the higher.
    """

    prompt_tokens: int
    owner: str | None = None
    priority: int = 0
    number: int = 0
    goes_first: bool = False


@dataclass(frozen=True, slots=True)
class Demoted(GenerationEvent):
    """A generation is less important from now on, in the queue or in its slot."""

    priority: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was refused, with all of its generations."""

    request_id: str
    generations: int
    error: CedeError


@dataclass(frozen=True, slots=True)
class Leader:
    """A generation that reads a prefix now which another's prompt shares: its first `shared_tokens`."""

    request_id: str
    index: int
    shared_tokens: int


@dataclass(frozen=True, slots=True)
class Granted(GenerationEvent):
    """A generation was granted a slot, which holds KV of the first `cached_tokens` of its prompt.

    Its rows wait while one of the `leaders` reads what both prompts share.
    """

    slot: int
    cached_tokens: int
    leaders: tuple[Leader, ...]


@dataclass(frozen=True, slots=True)
class Preempted(GenerationEvent):
    """A generation left its slot to the more important one of request `by`; its `tokens` are kept.

    That is None where there is no room for all who run, since they do not share what they shared.

    It waits in the queue again; `preemptions` counts how often it did so until now.
    """

    slot: int
    tokens: int
    preemptions: int
    by: str | None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A free slot and a retained place have exchanged what they hold; nothing was copied."""

    slot: int
    retained: int


@dataclass(frozen=True, slots=True)
class Resumed(GenerationEvent):
    """One that was preempted was granted a slot, which holds KV of the first `cached_tokens` of its sequence."""

    slot: int
    cached_tokens: int
    leaders: tuple[Leader, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class StageBegun(GenerationEvent):
    """The task of a generation, in which this is told, turned to another stage."""

    stage: ActorStage


@dataclass(frozen=True, slots=True)
class Submitted(GenerationEvent):
    """A generation asked for so many rows of a phase; `is_bulk` says that a step may serve a part of them."""

    phase: State
    rows: int
    is_bulk: bool


@dataclass(frozen=True, slots=True)
class HandedBack(GenerationEvent):
    """Rows that a generation submitted will not run: another has read the same tokens, whose KV can be copied."""


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
    """An event of one step, on the target or on the drafter; `number` counts each model's from 1, failed ones too.

    Steps of a burst that are told of together are told as the first of them is; the next number is behind all theirs.
    One that the device has begun by itself begins, for observers, when it is heard of.
    """

    number: int
    drafting: bool


@dataclass(frozen=True, slots=True)
class StepBegins(StepEvent):
    """A step is given to the device."""

    parts: tuple[StepPart, ...]


@dataclass(frozen=True, slots=True)
class LayerDone(StepEvent):
    """A layer of the step ended, which may be one within a burst; `layer` counts from 0.

    Told on the device thread; in virtual time, in the task that awaits the step.
    """

    layer: int


@dataclass(frozen=True, slots=True)
class StepEnded(StepEvent):
    """The step ran, and nothing is committed yet; `result` has one entry for each part, in their order."""

    result: StepResult


@dataclass(frozen=True, slots=True)
class StepRaised(StepEvent):
    """The step raised; nothing of it is committed, and its generations were not told yet."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Committed(GenerationEvent):
    """KV of `rows` tokens at positions from `start` on is valid in a slot; with `drafting` it is the drafter's KV.

    Of `drafted` tokens that the step verified, `accepted` ones stood.  They are among the rows, but for those behind
    the last state that recurrent layers have left: these are rows of the next step again.
    """

    slot: int
    drafting: bool
    start: int
    rows: int
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Invalidated(GenerationEvent):
    """All KV in a generation's slot was given up, whether that goes on or not; it is not used again."""

    slot: int


@dataclass(frozen=True, slots=True)
class SavedBlock:
    """A block that is copied out of a slot, from position `start` on."""

    key: BlockKey
    slot: int
    start: int


@dataclass(frozen=True, slots=True)
class TransferBegins:
    """KV is given to the device to be moved, in this order; the first transfers copy the blocks `saved`."""

    transfers: tuple[Transfer, ...]
    saved: tuple[SavedBlock, ...]


@dataclass(frozen=True, slots=True)
class TransferEnded:
    """The device is done with the transfers, those included that it failed at; not told if it is lost over them."""


@dataclass(frozen=True, slots=True)
class Transferred(GenerationEvent):
    """KV of `tokens` tokens at positions from `start` on was moved into a slot and is valid."""

    slot: int
    start: int
    tokens: int


@dataclass(frozen=True, slots=True)
class AuditFailed(GenerationEvent):
    """An audit found cached KV wrong: all that came from the blocks `keys`, or was computed after them, will now go."""

    keys: frozenset[BlockKey]


@dataclass(frozen=True, slots=True)
class Cancelled(GenerationEvent):
    """A generation was cancelled in this very moment; its rows are dropped at the next layer boundary."""

    at: float


@dataclass(frozen=True, slots=True)
class Released(GenerationEvent):
    """A generation ended, and its slot is free; `slot` is None if it never had one.

    `reason` is None unless it was cancelled.  The token counts are as in `Receipt`.
    """

    slot: int | None
    reason: CancelReason | None
    computed_tokens: int
    committed_tokens: int


@dataclass(frozen=True, slots=True)
class Emitted(GenerationEvent):
    """So many tokens were added to a generation's output at once, and are there for its client to read."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Ended(GenerationEvent):
    """A generation that had joined the queue is over, and `last` is what its client is about to be told."""

    last: Finished | Failed


@dataclass(frozen=True, slots=True)
class DeviceIsLost:
    """No step can run.  All who hold a slot end; so do all in the queue, unless `queue_waits` for the device.

    All whom it ends were told.
    """

    reason: str
    queue_waits: bool


@dataclass(frozen=True, slots=True)
class DeviceIsBack:
    """Steps can run again; no KV in the slots outlived the loss."""


Hook: TypeAlias = "Callable[[EventT], None] | tuple[Callable[[EventT], None], ...]"
"""What is told of a kind of event: a method of an `Observer`; of `Observers`, those of all who have it."""


class Hooks:
    """All hooks, by the names that they have in `Observer` and `Observers`."""

    arrived: Hook[Arrived]
    departed: Hook[Departed]
    queued: Hook[Queued]
    demoted: Hook[Demoted]
    refused: Hook[Refused]
    granted: Hook[Granted]
    preempted: Hook[Preempted]
    exchanged: Hook[Exchanged]
    resumed: Hook[Resumed]
    stage_begun: Hook[StageBegun]
    submitted: Hook[Submitted]
    handed_back: Hook[HandedBack]
    step_begins: Hook[StepBegins]
    layer_done: Hook[LayerDone]
    step_ended: Hook[StepEnded]
    step_raised: Hook[StepRaised]
    committed: Hook[Committed]
    verified: Hook[Committed]  # where some of the rows were drafts; before `committed`
    invalidated: Hook[Invalidated]
    transfer_begins: Hook[TransferBegins]
    transfer_ended: Hook[TransferEnded]
    transferred: Hook[Transferred]
    audit_failed: Hook[AuditFailed]
    cancelled: Hook[Cancelled]
    receipt: Hook[Receipt]
    released: Hook[Released]
    emitted: Hook[Emitted]
    ended: Hook[Ended]
    device_lost: Hook[DeviceIsLost]
    device_back: Hook[DeviceIsBack]


HOOKS = tuple(Hooks.__annotations__)
