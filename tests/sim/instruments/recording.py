"""I18: the recording."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from actors.engine import Engine
from tests.sim.instruments.happened import Happened
from tests.sim.instruments.picture import Picture
from web.observability.recording.file import Event
from web.observability.recording.recorder import Recorder
from web.observability.recording.trace_events import DrawnStep, Json

BEGINS = "recording begins"
CUT = "the recording ended"
ROUNDING = 0.002  # microseconds


class Recorded:
    """An engine's recording, in memory.

    Attributes:
        events: of the file.
        recorder: the real one, while it is attached and after that.
    """

    def __init__(self) -> None:
        self.events: list[Json] = []
        self.recorder: Recorder

    @contextmanager
    def watching(self, engine: Engine) -> Iterator[None]:
        """Record what an engine does while the scope lasts."""
        manager = engine.manager
        self.recorder = Recorder(self._put, manager.handle.now, engine.config.slots, manager.wall)
        with engine.observed_by(self.recorder):
            yield

    def _put(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, DrawnStep):
                drawn: list[Json] = [json.loads(text) for text in event.texts()]
                assert len(drawn) == len(event), "I18: a step counts for more or less than it is"
                self.events += drawn
            else:
                self.events.append(event)

    @property
    def began(self) -> float:
        """Return when the recording began, in seconds since the epoch."""
        (began,) = (event["args"]["unix_time"] for event in self.events if event["name"] == BEGINS)
        assert isinstance(began, float)
        return began

    def picture(self) -> Picture:
        """Return what was recorded, looked at; raises AssertionError if anything is open, or spans overlap."""
        assert self.recorder.open == 0, "I18: something has begun and not ended"
        picture = Picture(self.events)
        picture.check()
        return picture

    def check(self, happened: Happened) -> Picture:
        """Raise AssertionError if the picture is not of what happened, or a cancel is not where its receipt says."""
        self.recorder.close()  # KV may be on its way out of free slots
        picture = self.picture()
        cut = [event for event in self.events if "recording" in str(event.get("args", {}).get("ended"))]
        assert not cut, f"I18: only the recording's end has ended {cut}"
        cancels = {(event["args"]["request_id"], event["args"]["index"]): event for event in picture.cancels()}
        assert len(cancels) == len(picture.cancels()), "I18: a cancel is marked twice"
        assert {key: event["args"] for key, event in cancels.items()} == {
            key: asdict(receipt) for key, receipt in happened.receipts.items()
        }, "I18: the marks are not the receipts"
        for key, receipt in happened.receipts.items():
            late = cancels[key]["ts"] - (receipt.detected_at - self.began) * 1e6
            assert abs(late) < ROUNDING, f"I18: {receipt} is marked {late} microseconds late"
        in_queue = [event for event in picture.instants["cancelled"] if event["name"] != BEGINS]
        waiting = [receipt for receipt in happened.receipts.values() if receipt.phase in ("queued", "parked")]
        assert len(in_queue) == len(waiting), "I18: cancels of the queue"
        assert sorted(picture.waits) == sorted(f"{name}/{index}" for name, index in happened.waited), "I18: waits"
        self._check_holds(picture, happened)
        steps = [span for name in ("steps", "drafter's steps") for span in picture.spans[name]]
        assert not [span for span in steps if span.args.get("error") == CUT], "I18: a step has no end"
        whole = Counter(span.name.split()[0] for span in steps)
        assert whole["step"] + whole["draft"] == happened.steps, f"I18: {happened.steps} steps; drawn are {whole}"
        return picture

    def _check_holds(self, picture: Picture, happened: Happened) -> None:
        """Each grant is a span on its slot's row, which says why it ended."""
        told = Counter(
            ((hold.args["request_id"], hold.args["index"]), track, hold.args["cancelled"])
            for track, spans in picture.spans.items()
            if track.startswith("slot ") and not track.endswith("work")
            for hold in spans
        )
        reasons = {key: one.reason.value for key, one in happened.receipts.items() if one.phase != "parked"}
        last = {key: number for number, (key, _) in enumerate(happened.holds)}
        true = Counter(
            (key, f"slot {slot}", reasons.get(key) if last[key] == number else None)
            for number, (key, slot) in enumerate(happened.holds)
        )
        assert told == true, f"I18: drawn are {told}, and granted {true}"
