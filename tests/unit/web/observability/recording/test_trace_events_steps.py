"""A step becomes the spans of the format: itself, its layers, and what it did for each slot."""

from __future__ import annotations

import json

from actors.core.events import StepBegins, StepPart
from actors.core.life import State
from web.observability.recording.trace_events import DRAFT_STEPS, STEPS, BegunStep, DrawnStep, Json, span, work

NAME = 'a "name"\n\\ ü\x00'
PARTS = (
    StepPart("a", 0, State.PREFILL, 1, 5, (7, 8, 9), 0),
    StepPart(NAME, 2, State.VERIFY, 0, 12, (1, 2), 1),
)


def spans(step: DrawnStep) -> list[Json]:
    drawn = [json.loads(text) for text in step.texts()]
    assert len(drawn) == len(step)
    return drawn


def test_a_step_is_itself_its_layers_and_its_parts() -> None:
    began = BegunStep(1_000, StepBegins(3, drafting=False, parts=PARTS))
    first = {"request_id": "a", "index": 0, "rows": 3, "start": 5, "drafts": 0}
    second = {"request_id": NAME, "index": 2, "rows": 2, "start": 12, "drafts": 1}
    drawn = DrawnStep(began, 3_003, ((True, 0), (False, 2)), layer_ends=(7.000001234, 7.000002001), zero=7.0)
    assert spans(drawn) == [
        span(STEPS, "step 3", 1_000, 3_003, rows=5, steps=1),
        span(STEPS, "layer 0", 1_000, 1_234),
        span(STEPS, "layer 1", 1_234, 2_001),
        span(work(1), "prefill", 1_000, 3_003, **first, computed=True, layers_after_cancel=0),
        span(work(0), "verify", 1_000, 3_003, **second, computed=False, layers_after_cancel=2),
    ]


def test_a_layer_lies_within_its_step_however_its_clock_was_rounded() -> None:
    began = BegunStep(1_000, StepBegins(3, drafting=False, parts=()))
    _, first, second, third = spans(DrawnStep(began, 3_000, layer_ends=(0.9e-6, 2e-6, 3.2e-6)))
    assert [(one["ts"], one["dur"]) for one in (first, second, third)] == [(1.0, 0.0), (1.0, 1.0), (2.0, 1.0)]


def test_a_step_that_failed_says_why_in_each_of_its_spans() -> None:
    began = BegunStep(0, StepBegins(1, drafting=True, parts=PARTS[:1]))
    error = 'a "fault"'
    assert spans(DrawnStep(began, 7, error=error)) == [
        span(DRAFT_STEPS, "draft 1", 0, 7, rows=3, steps=1, error=error),
        span(work(1), "prefill", 0, 7, request_id="a", index=0, rows=3, start=5, drafts=0, error=error),
    ]
