"""The table of a generation's life: what it lists happens, and everything else raises."""

from __future__ import annotations

import itertools

import pytest

from actors.core.life import PHASES, Event, IllegalTransition, Life, State, planned, state_after
from runtime.common.ownership import TaskOwner
from tests.rows import every_row

QUEUED, PREEMPTED, PREFILL, DECODE, DRAFT, VERIFY, LOST, DONE = State
ANYWHERE = {
    Event.DECODES: DECODE,
    Event.DRAFTS: DRAFT,
    Event.VERIFIES: VERIFY,
    Event.PREEMPTED: PREEMPTED,
    Event.DEVICE_LOST: LOST,
    Event.CANCELLED: DONE,
}
LISTED: dict[State, dict[Event, State]] = {
    QUEUED: {Event.GRANTED: PREFILL, Event.DEVICE_LOST: LOST, Event.CANCELLED: DONE},
    PREEMPTED: {Event.GRANTED: PREFILL, Event.DEVICE_LOST: LOST, Event.CANCELLED: DONE},
    PREFILL: {
        Event.TRANSFERRED: PREFILL,
        Event.RESTARTED: PREFILL,
        Event.READS: PREFILL,
        Event.FINISHED: DONE,
        **ANYWHERE,
    },
    DECODE: {Event.FINISHED: DONE, **ANYWHERE},
    DRAFT: ANYWHERE,
    VERIFY: {Event.FINISHED: DONE, **ANYWHERE},
    LOST: {Event.FINISHED: DONE, Event.CANCELLED: DONE},
    DONE: {},
}


@every_row("state, event", itertools.product(State, Event))
def test_every_pair_is_listed_or_raises(state: State, event: Event) -> None:
    if event in LISTED[state]:
        assert state_after(state, event) is LISTED[state][event]
    else:
        with pytest.raises(IllegalTransition, match=f"state {state} {event}"):
            state_after(state, event)


def test_a_life_remembers_the_phase_in_which_it_was_lost() -> None:
    life = Life(TaskOwner())
    seen = []
    for event in (Event.GRANTED, Event.READS, Event.DRAFTS, Event.DEVICE_LOST, Event.CANCELLED):
        life.take(event)
        seen.append((life.state, life.phase))
    assert seen == [(PREFILL, PREFILL), (PREFILL, PREFILL), (DRAFT, DRAFT), (LOST, DRAFT), (DONE, DRAFT)]


def test_what_raises_changes_nothing() -> None:
    life = Life(TaskOwner())
    with pytest.raises(IllegalTransition):
        life.take(Event.FINISHED)
    assert life.state is QUEUED


@every_row("phase", sorted(PHASES))
def test_each_phase_has_an_event_that_leads_to_it(phase: State) -> None:
    assert state_after(PREFILL, planned(phase)) is phase
