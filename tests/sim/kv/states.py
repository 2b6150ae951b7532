"""States of a recurrent layer in the simulation: scenarios that have one, and I38, that each stands for its tokens."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.core.observer import Observer
from actors.core.places.state_pool import least_buffers
from runtime.step.transfer import LoadState

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from actors.core.events import StepBegins, StepEnded, StepRaised, TransferBegins
    from runtime.step.step import Segment
    from tests.sim.scenario import Scenario
    from tests.sim.watch import Watch

FIRST_SEED = 200  # of scenarios with what came later: the table of mutants names many before it


def with_states(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same, in a third of the later scenarios, of a model with a recurrent layer.

    Where there are few buffers, a verification leaves fewer states than it has drafts.
    """
    if scenario.seed < FIRST_SEED or dice.random() > 1 / 3:
        return scenario
    buffers = least_buffers(scenario.slots) + dice.choice([0, 1, 5, 100])
    return replace(scenario, state_buffers=buffers, rings=None)


class StateWatch(Observer):
    """I38: a state that is named is that of exactly the tokens before it, and what is named is not written.

    A burst alone writes in turns the buffers that its own slot names on its way.

    Args:
        watch: with the manager and the model.
    """

    def __init__(self, watch: Watch) -> None:
        self._table = watch.manager.table
        self._watch = watch
        self._model = watch.model
        self._buffers = watch.model.buffers
        self._truth = watch.truth
        self._violated = watch.violated
        self._is_first = True  # the step that is to begin on the device
        self._goes_on = False

    def step_begins(self, event: StepBegins) -> None:
        """Check what is named."""
        self._is_first, self._goes_on = not self._goes_on, False
        self._check_named()

    def step_ended(self, event: StepEnded) -> None:
        """Note whether the device goes on by itself."""
        self._goes_on = event.result.following is not None

    def step_raised(self, event: StepRaised) -> None:
        """Note that it does not."""
        self._goes_on = False

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check what is named, and that nothing of that is written."""
        self._check_named()
        loaded = Counter(transfer.buffer for transfer in event.transfers if isinstance(transfer, LoadState))
        for place in self._table.places:
            if named := loaded.keys() & {*place.states.values(), *place.displaced}:
                self._violated(f"I38: states are loaded into {named}, which slot {place.id} names")
        if doubled := [buffer for buffer, times in loaded.items() if times > 1]:
            self._violated(f"I38: states are loaded into buffers {doubled} more than once")

    def look(self, segments: Sequence[Segment]) -> None:
        """Check what a step of the target reads and writes that begins on the device."""
        if not self._buffers:
            return
        written = Counter(buffer for segment in segments for _, buffer in segment.next_states)
        if doubled := [buffer for buffer, times in written.items() if times > 1]:
            self._violated(f"I38: a step writes buffers {doubled} more than once")
        for segment in segments:
            if segment.state in written:
                self._violated(f"I38: a step reads buffer {segment.state}, and writes it")
            if [end for end, _ in segment.next_states][-1:] != [len(segment.token_ids)]:
                self._violated(f"I38: the last rows of slot {segment.slot} leave no state")
            writes = {buffer for _, buffer in segment.next_states}
            for place in self._table.places:
                named = writes.intersection((*place.states.values(), *place.displaced))
                if named and (self._is_first or place.id != segment.slot):
                    self._violated(f"I38: a step over slot {segment.slot} writes {named}, which slot {place.id} names")
        self._is_first = False

    def _check_named(self) -> None:
        """Each state is that of its tokens, and each sequence has one to go on from."""
        if not self._buffers or not self._watch.kv_is_exact:
            return
        for place in self._table.places:
            rows = self._truth.rows(place.tokens, place.id)
            for length, buffer in place.states.items():
                if not self._model.state_is_exact(buffer):
                    continue
                if not 0 < length <= len(rows) or self._buffers[buffer] != rows[length - 1]:
                    self._violated(f"I38: slot {place.id}: buffer {buffer} is not the state of its {length} tokens")
            if place.owner is not None and rows and len(rows) not in place.states:
                self._violated(f"I38: slot {place.id} goes on from {len(rows)} tokens, and has no state of them")
