"""Check that steps which begin before the host has read the ones before give what steps one by one do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.sampling.tokens import SampleSpec
from runtime.selftest.findings import Figures, Mismatch, NotHere
from runtime.selftest.rates import GREEDY, decode, placed, prefill, random_prompt, step
from runtime.selftest.states import with_states
from runtime.step.burst import RunningBurst
from runtime.step.job import Burst, StepJob
from runtime.step.shortcuts import NextStep
from runtime.step.step import Segment

if TYPE_CHECKING:
    from runtime.nn.model import Transformer

SEQUENCES, DEPTH, STEPS = 2, 8, 24


def check_next_step(model: Transformer) -> Figures:
    """Decode the same in both ways, on the device thread.

    Raises:
        Mismatch: the tokens differ.
        NotHere: no step of the model begins ahead.
    """
    if not isinstance(model, NextStep):
        raise NotHere("no step begins before the one before has been read")
    for slot in range(SEQUENCES):
        prefill(model, slot, random_prompt(model, DEPTH, slot))
    expected = [
        [one.tokens[0].token_id for one in result.segments] for result in decode(model, SEQUENCES, DEPTH, STEPS)
    ]
    sample = SampleSpec(GREEDY, DEPTH + 1, 0)
    first = [Segment(slot, DEPTH, [1], sample=sample) for slot in range(SEQUENCES)]
    first = with_states(model.buffers, placed(model, first), spares=2)
    running = RunningBurst(StepJob(first, burst=Burst(STEPS, STEPS, lambda: True)), model)
    while running.segments:
        running.add(step(model, running.segments, running))
    drawn = [[token.token_id for token in one.tokens] for one in running.result().segments]
    for number, tokens in enumerate(zip(*drawn, strict=True)):
        if list(tokens) != expected[number]:
            raise Mismatch(f"step {number} of {STEPS} drew {list(tokens)}, and {expected[number]} by itself")
    return {"steps": STEPS, "sequences": SEQUENCES}
