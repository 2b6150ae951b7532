"""Answers of the endpoints that look at the engine.  Times are seconds since the epoch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from actors.core.life import State
from actors.core.receipts import CancelReason
from actors.diagnostics.loop_holds import Cause
from runtime.loading.served import Proposer
from web.generation.openai_format.answers.objects import ErrorDetails
from web.openapi.operations import Answer
from web.storage.detached.answers import DetachableRequest


class Healthy(Answer):
    """The server serves."""

    status: Literal["ok"]


class Unhealthy(Answer):
    """The server does not serve: the error says why."""

    status: Literal["unavailable"]
    error: ErrorDetails


class Slot(Answer):
    """State of one slot, and how much KV is in it."""

    id: int
    state: State | Literal["idle"]
    request_id: str | None
    tokens: int = Field(description="Of the sequence that it works on.")
    resident_tokens: int = Field(description="Whose KV stays in it while it is idle.")
    origin: int = Field(description="The position of the KV arena where its sequence begins.")
    capacity: int = Field(description="How many positions it has there; 0 for none.")
    draft_tokens: int = Field(description="Of which the drafter has KV.")


class SlotList(Answer):
    """All slots."""

    slots: list[Slot]


class LiveRequest(Answer):
    """A request that is queued or runs, with an entry of `states` and `slots` for each of its generations."""

    id: str
    created: float
    states: list[State]
    prompt_tokens: int
    completion_tokens: int
    slots: list[int | None]
    owner: str | None = Field(description="The name of the API key that asked.")
    deadline: float | None = Field(
        description="When it is cancelled if it has not ended; null if it may take for ever."
    )
    priority: int = Field(description="The lower, the earlier.")
    group: str | None = Field(description="This and the next: what the request said of itself, in `cede`.")
    first_wins: bool
    supersede: str | None
    after: str | None
    warm: bool
    parks: int = Field(description="How often one of its generations left its slot to a more important one.")
    parked_seconds: float = Field(description="For how long, in all, until now.")


class RequestList(Answer):
    """The live requests, the oldest first."""

    data: list[LiveRequest]
    detachable: list[DetachableRequest] = Field(
        description="Those of them that may outlive their clients, and those whose answers are kept."
    )


class Cancelled(Answer):
    """The request was live, and ends."""

    id: str
    cancelled: Literal[True]


class Receipt(Answer):
    """Cost of one cancel."""

    request_id: str
    index: int = Field(description="Which of the request's generations.")
    reason: CancelReason
    phase: str
    detected_at: float
    last_kernel_at: float | None = Field(description="Null if it held no slot.")
    slot_freed_at: float | None = Field(description="Null if it held no slot.")
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    kept_tokens: int
    wasted_tokens: int
    layers_after_cancel: int
    drafted_tokens: int
    accepted_tokens: int
    owner: str | None = Field(description="The name of the API key that asked.")
    group: str | None = Field(description="This and the next: what the request said of itself, in `cede`.")
    supersede: str | None
    after: str | None
    warm: bool
    parks: int = Field(description="How often it had left its slot to a more important one.")
    parked_seconds: float = Field(description="For how long, in all.")


class ReceiptList(Answer):
    """The newest receipts, the newest first."""

    data: list[Receipt]


# --- statistics -------------------------------------------------------------------------------------------------------


class RamTier(Answer):
    """KV in host memory."""

    blocks: int
    bytes: int
    budget: int
    evictions: int


class DiskTier(Answer):
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


class Cache(Answer):
    """KV outside the slots."""

    hits: dict[str, int] = Field(description="Tokens that were not computed, by where their KV came from.")
    strikes: int
    audits: int
    audit_failures: int
    unsaved_blocks: int
    ram: RamTier
    disk: DiskTier | None
    served_again: int = Field(description="Tokens that cancelled requests left and later ones were given.")
    late_reads: int
    disk_answers: bool


class RetainedExtent(Answer):
    """KV that lies in no slot, and needs no copying: of somebody who was preempted, or who was in that one's slot."""

    id: int
    tokens: int
    origin: int = Field(description="The position of the KV arena where its sequence begins.")
    capacity: int = Field(description="How many positions it has there.")


class Arena(Answer):
    """The KV that all sequences share; where each lies, `/slots` and `shelves` say."""

    positions: int
    free: int = Field(description="Positions that no sequence has, idle slots' neither.")
    largest_gap: int = Field(description="Of these, the most that lie together.")
    promised: int = Field(description="Positions that those who run may come to need.")
    extents: int = Field(description="Sequences that have a place, idle slots' included.")
    shelves: list[RetainedExtent] = Field(
        description="Those that lie in a retained extent; whoever needs their room has it."
    )
    moving: int | None = Field(description="The slot, or retained extent, whose sequence is being moved.")
    bytes: int
    free_bytes: int
    grown: int = Field(description="This and those below: since the start.  Sequences that grew in place.")
    moves: int
    moved_positions: int
    compactions: int = Field(description="Of the moves, those that made room for another sequence.")
    given_up: int = Field(description="What idle slots kept, and made room.")


class Manager(Answer):
    """The slot manager's counts since the start, and what it holds now."""

    steps: int
    rows: int
    decode_tokens: int
    prefill_tokens: int
    failed_steps: int
    queued: int
    leased: int
    slots: int
    cancels: dict[str, int] = Field(description="By reason.")
    cache: Cache
    arena: Arena
    device_losses: int
    parks: int = Field(description="How often a generation left its slot to a more important one.")
    resumes: int = Field(description="How often one of them had a slot again.")
    parked: int = Field(description="Those of the queued that wait for that.")
    last_step_seconds: float | None = Field(description="Of the newest step; null before the first.")
    step_target_seconds: float = Field(description="What such a step may take where prompts are read in it.")


class Speculation(Answer):
    """Statistics of drafting since the start."""

    proposer: Proposer
    draft_steps: int
    draft_rows: int
    verify_steps: int
    drafted_tokens: int
    accepted_tokens: int
    acceptance_rate: float | None


class Unread(Answer):
    """Answers that wait for their readers."""

    bytes: int
    budget: int | None
    readers: int
    cut: int


class LoopHold(Answer):
    """A time in which the event loop stood still."""

    seconds: float
    cpu_seconds: float
    cause: Cause
    task: str
    where: list[str]
    others: list[str]


class Loop(Answer):
    """Statistics of what held the event loop; only with `--watch-loop`."""

    threshold_seconds: float
    steps: int
    holds: dict[str, int]
    held_seconds: dict[str, float]
    worst: LoopHold | None
    latest: list[LoopHold]


class Detachable(Answer):
    """Requests that may outlive their clients."""

    running: int
    detached: int = Field(description="Of those that run; nobody reads them.")
    readers: int
    kept: int = Field(description="Answers of those that have ended.")
    kept_bytes: int
    attaches: int = Field(description="Since the start: readers that came to one that ran, or had ended.")


class Statistics(Answer):
    """Counts since the start, and what is held now."""

    live_requests: int
    manager: Manager
    speculation: Speculation
    unread: Unread
    tasks: int = Field(description="Of the event loop, that live.")
    detachable: Detachable | None = Field(description="Null where no request may outlive its client.")
    loop: Loop | None = Field(None, description="Only with `--watch-loop`.")
