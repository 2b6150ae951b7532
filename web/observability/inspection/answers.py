"""Answers of the endpoints that look at the engine.  Times are seconds since the epoch."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from actors.core.life import State
from actors.core.receipts import CancelReason
from actors.diagnostics.loop_holds import Cause
from runtime.loading.served import Proposer
from web.generation.openai_format.answers.objects import ErrorDetails
from web.storage.detached.answers import DetachableRequest


class Healthy(TypedDict):
    """The server serves."""

    status: Literal["ok"]


class Unhealthy(TypedDict):
    """The server does not serve: the error says why."""

    status: Literal["unavailable"]
    error: ErrorDetails


class Slot(TypedDict):
    """State of one slot, and how much KV is in it."""

    id: int
    state: State | Literal["idle"]
    request_id: str | None
    tokens: Annotated[int, Field(description="Of the sequence that it works on.")]
    resident_tokens: Annotated[int, Field(description="Whose KV stays in it while it is idle.")]
    origin: Annotated[int, Field(description="The position of the KV arena where its sequence begins.")]
    capacity: Annotated[int, Field(description="How many positions it has there; 0 for none.")]
    draft_tokens: Annotated[int, Field(description="Of which the drafter has KV.")]


class SlotList(TypedDict):
    """All slots."""

    slots: list[Slot]


class LiveRequest(TypedDict):
    """A request that is queued or runs, with an entry of `states` and `slots` for each of its generations."""

    id: str
    created: float
    states: list[State]
    prompt_tokens: int
    completion_tokens: int
    slots: list[int | None]
    owner: Annotated[str | None, Field(description="The name of the API key that asked.")]
    deadline: Annotated[
        float | None, Field(description="When it is cancelled if it has not ended; null if it may take for ever.")
    ]
    priority: Annotated[int, Field(description="The lower, the earlier.")]
    group: Annotated[str | None, Field(description="This and the next: what the request said of itself, in `cede`.")]
    first_wins: bool
    supersede: str | None
    after: str | None
    warm: bool
    parks: Annotated[int, Field(description="How often one of its generations left its slot to a more important one.")]
    parked_seconds: Annotated[float, Field(description="For how long, in all, until now.")]


class RequestList(TypedDict):
    """The live requests, the oldest first."""

    data: list[LiveRequest]
    detachable: Annotated[
        list[DetachableRequest],
        Field(description="Those of them that may outlive their clients, and those whose answers are kept."),
    ]


class Cancelled(TypedDict):
    """The request was live, and ends."""

    id: str
    cancelled: Literal[True]


class Receipt(TypedDict):
    """Cost of one cancel."""

    request_id: str
    index: Annotated[int, Field(description="Which of the request's generations.")]
    reason: CancelReason
    phase: str
    detected_at: float
    last_kernel_at: Annotated[float | None, Field(description="Null if it held no slot.")]
    slot_freed_at: Annotated[float | None, Field(description="Null if it held no slot.")]
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    kept_tokens: int
    wasted_tokens: int
    layers_after_cancel: int
    drafted_tokens: int
    accepted_tokens: int
    owner: Annotated[str | None, Field(description="The name of the API key that asked.")]
    group: Annotated[str | None, Field(description="This and the next: what the request said of itself, in `cede`.")]
    supersede: str | None
    after: str | None
    warm: bool
    parks: Annotated[int, Field(description="How often it had left its slot to a more important one.")]
    parked_seconds: Annotated[float, Field(description="For how long, in all.")]


class ReceiptList(TypedDict):
    """The newest receipts, the newest first."""

    data: list[Receipt]


# --- statistics -------------------------------------------------------------------------------------------------------


class RamTier(TypedDict):
    """KV in host memory."""

    blocks: int
    bytes: int
    budget: int
    evictions: int


class DiskTier(TypedDict):
    """KV on disk."""

    blocks: int
    bytes: int
    budget: int
    queued: int
    written: int
    loaded: int
    dropped: int
    struck: int
    evicted: int
    rejected: dict[str, int]
    write_errors: int
    suspended: bool


class Cache(TypedDict):
    """KV outside the slots."""

    hits: Annotated[dict[str, int], Field(description="Tokens that were not computed, by where their KV came from.")]
    strikes: int
    audits: int
    audit_failures: int
    unsaved_blocks: int
    ram: RamTier
    disk: DiskTier | None
    served_again: Annotated[int, Field(description="Tokens that cancelled requests left and later ones were given.")]
    late_reads: int
    disk_answers: bool


class RetainedExtent(TypedDict):
    """KV that lies in no slot, and needs no copying: of somebody who was preempted, or who was in that one's slot."""

    id: int
    tokens: int
    origin: Annotated[int, Field(description="The position of the KV arena where its sequence begins.")]
    capacity: Annotated[int, Field(description="How many positions it has there.")]


class Arena(TypedDict):
    """The KV that all sequences share; where each lies, `/slots` and `shelves` say."""

    positions: int
    free: Annotated[int, Field(description="Positions that no sequence has, idle slots' neither.")]
    largest_gap: Annotated[int, Field(description="Of these, the most that lie together.")]
    promised: Annotated[int, Field(description="Positions that those who run may come to need.")]
    extents: Annotated[int, Field(description="Sequences that have a place, idle slots' included.")]
    shelves: Annotated[
        list[RetainedExtent], Field(description="Those that lie in a retained extent; whoever needs their room has it.")
    ]
    moving: Annotated[int | None, Field(description="The slot, or retained extent, whose sequence is being moved.")]
    bytes: int
    free_bytes: int
    grown: Annotated[int, Field(description="This and those below: since the start.  Sequences that grew in place.")]
    moves: int
    moved_positions: int
    compactions: Annotated[int, Field(description="Of the moves, those that made room for another sequence.")]
    given_up: Annotated[int, Field(description="What idle slots kept, and made room.")]


class Manager(TypedDict):
    """The slot manager's counts since the start, and what it holds now."""

    steps: int
    rows: int
    decode_tokens: int
    prefill_tokens: int
    failed_steps: int
    queued: int
    leased: int
    slots: int
    cancels: Annotated[dict[str, int], Field(description="By reason.")]
    cache: Cache
    arena: Arena
    device_losses: int
    parks: Annotated[int, Field(description="How often a generation left its slot to a more important one.")]
    resumes: Annotated[int, Field(description="How often one of them had a slot again.")]
    parked: Annotated[int, Field(description="Those of the queued that wait for that.")]
    last_step_seconds: Annotated[float | None, Field(description="Of the newest step; null before the first.")]
    step_target_seconds: Annotated[float, Field(description="What such a step may take where prompts are read in it.")]


class Speculation(TypedDict):
    """Statistics of drafting since the start."""

    proposer: Proposer
    draft_steps: int
    draft_rows: int
    verify_steps: int
    drafted_tokens: int
    accepted_tokens: int
    acceptance_rate: float | None


class Unread(TypedDict):
    """Answers that wait for their readers."""

    bytes: int
    budget: int | None
    readers: int
    cut: int


class LoopHold(TypedDict):
    """A time in which the event loop stood still."""

    seconds: float
    cpu_seconds: float
    cause: Cause
    task: str
    where: list[str]
    others: list[str]


class Loop(TypedDict):
    """Statistics of what held the event loop; only with `--watch-loop`."""

    threshold_seconds: float
    steps: int
    holds: dict[str, int]
    held_seconds: dict[str, float]
    worst: LoopHold | None
    latest: list[LoopHold]


class Detachable(TypedDict):
    """Requests that may outlive their clients."""

    running: int
    detached: Annotated[int, Field(description="Of those that run; nobody reads them.")]
    readers: int
    kept: Annotated[int, Field(description="Answers of those that have ended.")]
    kept_bytes: int
    attaches: Annotated[int, Field(description="Since the start: readers that came to one that ran, or had ended.")]


class Statistics(TypedDict):
    """Counts since the start, and what is held now."""

    live_requests: int
    manager: Manager
    speculation: Speculation
    unread: Unread
    tasks: Annotated[int, Field(description="Of the event loop, that live.")]
    detachable: Annotated[Detachable | None, Field(description="Null where no request may outlive its client.")]
    loop: NotRequired[Annotated[Loop | None, Field(description="Only with `--watch-loop`.")]]
