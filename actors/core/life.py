"""A generation's life: one table of states and events, in the manner of h11.

`QUEUED` and `PREEMPTED` are a ticket's states; the four phases and `LOST` are a hold's; after `DONE` there is nothing.
The slot manager alone moves a generation, by `Life.take`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.common.ownership import TaskOwner


class State(enum.StrEnum):
    """State of a generation; `GET /v1/requests` and `GET /slots` show these words."""

    QUEUED = "queued"
    PREEMPTED = "parked"  # waits for a slot again, which a more important one has, with all that it has computed
    PREFILL = "prefill"
    DECODE = "decode"
    DRAFT = "draft"
    VERIFY = "verify"
    LOST = "lost"  # the device was, and with it what this generation held or waited for
    DONE = "done"


PHASES = frozenset({State.PREFILL, State.DECODE, State.DRAFT, State.VERIFY})
"""What the rows of a step can be for."""


class Event(enum.StrEnum):
    """Event in the life of a generation."""

    GRANTED = "is granted a slot"
    PREEMPTED = "leaves its slot to a more important one"
    TRANSFERRED = "has KV moved"
    RESTARTED = "is to read its prompt again, from a clean state"
    READS = "has prompt rows in a step"
    DECODES = "has its newest token in a step"
    DRAFTS = "has rows in a step of the drafter"
    VERIFIES = "has drafts in a step"
    DEVICE_LOST = "loses what it has on the device"
    FINISHED = "ends with all its tokens"
    CANCELLED = "ends before that"


class IllegalTransition(Exception):
    """A bug in the engine: something happened to a generation that cannot happen in its state."""


_AFTER: dict[tuple[State, Event], State] = {
    (State.QUEUED, Event.GRANTED): State.PREFILL,
    (State.QUEUED, Event.DEVICE_LOST): State.LOST,
    (State.QUEUED, Event.CANCELLED): State.DONE,
    (State.PREEMPTED, Event.GRANTED): State.PREFILL,
    (State.PREEMPTED, Event.DEVICE_LOST): State.LOST,
    (State.PREEMPTED, Event.CANCELLED): State.DONE,
    (State.PREFILL, Event.PREEMPTED): State.PREEMPTED,
    (State.DECODE, Event.PREEMPTED): State.PREEMPTED,
    (State.DRAFT, Event.PREEMPTED): State.PREEMPTED,
    (State.VERIFY, Event.PREEMPTED): State.PREEMPTED,
    (State.PREFILL, Event.TRANSFERRED): State.PREFILL,
    (State.PREFILL, Event.RESTARTED): State.PREFILL,
    (State.PREFILL, Event.READS): State.PREFILL,
    (State.PREFILL, Event.DECODES): State.DECODE,
    (State.PREFILL, Event.DRAFTS): State.DRAFT,
    (State.PREFILL, Event.VERIFIES): State.VERIFY,  # what was looked up needs no step of a drafter
    (State.PREFILL, Event.DEVICE_LOST): State.LOST,
    (State.PREFILL, Event.FINISHED): State.DONE,  # with its first token
    (State.PREFILL, Event.CANCELLED): State.DONE,
    (State.DECODE, Event.DECODES): State.DECODE,
    (State.DECODE, Event.DRAFTS): State.DRAFT,
    (State.DECODE, Event.VERIFIES): State.VERIFY,
    (State.DECODE, Event.DEVICE_LOST): State.LOST,
    (State.DECODE, Event.FINISHED): State.DONE,
    (State.DECODE, Event.CANCELLED): State.DONE,
    (State.DRAFT, Event.DECODES): State.DECODE,  # the drafter failed
    (State.DRAFT, Event.DRAFTS): State.DRAFT,
    (State.DRAFT, Event.VERIFIES): State.VERIFY,
    (State.DRAFT, Event.DEVICE_LOST): State.LOST,
    (State.DRAFT, Event.CANCELLED): State.DONE,
    (State.VERIFY, Event.DECODES): State.DECODE,
    (State.VERIFY, Event.DRAFTS): State.DRAFT,
    (State.VERIFY, Event.VERIFIES): State.VERIFY,
    (State.VERIFY, Event.DEVICE_LOST): State.LOST,
    (State.VERIFY, Event.FINISHED): State.DONE,
    (State.VERIFY, Event.CANCELLED): State.DONE,
    (State.LOST, Event.FINISHED): State.DONE,  # its last token came before the loss, and its end after it
    (State.LOST, Event.CANCELLED): State.DONE,
}

_PLANNED = {
    State.PREFILL: Event.READS,
    State.DECODE: Event.DECODES,
    State.DRAFT: Event.DRAFTS,
    State.VERIFY: Event.VERIFIES,
}


def state_after(state: State, event: Event) -> State:
    """Return the state that an event leads to.

    Raises:
        IllegalTransition: it cannot happen in that state.
    """
    after = _AFTER.get((state, event))
    if after is None:
        raise IllegalTransition(f"a generation in state {state} {event}")
    return after


def planned(phase: State) -> Event:
    """The event of having rows of a phase in a step.

    Raises:
        KeyError: it is not one of `PHASES`.
    """
    return _PLANNED[phase]


class Life:
    """The state of one generation, and how far it came.

    Attributes:
        state: now.
        phase: the last of `QUEUED`, `PREEMPTED` and the phases that it was in, which is what its receipt tells.
    """

    __slots__ = ("_owner", "phase", "state")

    def __init__(self, owner: TaskOwner) -> None:
        """Begin in the queue."""
        self.state = self.phase = State.QUEUED
        self._owner = owner

    def take(self, event: Event) -> None:
        """Let something happen.

        Raises:
            IllegalTransition: it cannot.
            NotTheOwner: by this task.
        """
        self._owner.check()
        self.state = state_after(self.state, event)
        if self.state in PHASES or self.state is State.PREEMPTED:
            self.phase = self.state
