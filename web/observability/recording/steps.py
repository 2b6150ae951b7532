"""A step as it is drawn: itself, its layers, and what it did for each slot.

Steps are most of a recording.  What is known of one is kept as it came, and becomes text where it is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING

from web.observability.recording import trace_events
from web.observability.recording.trace_events import DRAFT_STEPS, STEPS, span_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.core.events import StepBegins


@dataclass(frozen=True, slots=True)
class BegunStep:
    """A step that runs.

    Attributes:
        since: when it began, in nanoseconds.
        event: what it runs.
    """

    since: int
    event: StepBegins


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step that has ended, in several spans.

    Attributes:
        step: as it ran.
        end: when it ended, in nanoseconds.
        outcomes: whether each part was computed, and layers that ran after its cancel; none where the step failed.
        error: why it failed; empty where it did not.
        layer_ends: when each layer ended, in seconds on the executor's clock; none where the step failed.  In a burst
            they are counted on.
        zero: the beginning of the recording, likewise.
        steps: how many there were, in a burst.
    """

    step: BegunStep
    end: int
    outcomes: tuple[tuple[bool, int], ...] = ()
    error: str = ""
    layer_ends: tuple[float, ...] = ()
    zero: float = 0.0
    steps: int = 1

    def __len__(self) -> int:
        """Return how many spans it is."""
        return 1 + len(self.layer_ends) + len(self.step.event.parts)

    def texts(self) -> Iterator[str]:
        """Yield the spans, each as JSON."""
        event, since = self.step.event, self.step.since
        track, kind = (DRAFT_STEPS, "draft") if event.drafting else (STEPS, "step")
        error = f',"error":{quoted(self.error)}' if self.error else ""
        rows = sum(len(part.token_ids) for part in event.parts)
        yield span_text(
            track, f'"{kind} {event.number}"', since, self.end, f'"rows":{rows},"steps":{self.steps}{error}'
        )
        began = since
        for number, at in enumerate(self.layer_ends):
            # Two clocks are rounded apart by less than a microsecond: a layer is within its step.
            ended = min(max(began, round((at - self.zero) * 1e9)), self.end)
            yield span_text(track, f'"layer {number}"', began, ended, "")
            began = ended
        for number, part in enumerate(event.parts):
            about = f'"request_id":{quoted(part.request_id)},"index":{part.index},"rows":{len(part.token_ids)}'
            about += f',"start":{part.start},"drafts":{part.drafts}{error}'
            if self.outcomes:
                computed, after_cancel = self.outcomes[number]
                about += f',"computed":{"true" if computed else "false"},"layers_after_cancel":{after_cancel}'
            yield span_text(trace_events.work(part.slot), quoted(part.phase.value), since, self.end, about)
