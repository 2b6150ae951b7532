"""Recordings of the feed: what a viewer would get, at the rate that is promised, and what a slow one loses."""

from __future__ import annotations

from itertools import pairwise

from bench.page.recording import events_of, record


def test_a_busy_engine_tells_about_a_thousand_events_a_second_in_few_frames() -> None:
    first, second = record([3.0, 2.0])
    for recording in (first, second):
        seconds = recording[-1].at
        assert 800 * seconds < len(events_of(recording)) < 1300 * seconds
        assert len(recording) < 5 * seconds + 3
        assert recording[0].wire.startswith(b"event: snapshot\n")
        assert all(frame.wire.endswith(b"\n\n") for frame in recording)
        assert all(one.at <= other.at for one, other in pairwise(recording))
    assert {"receipt", "granted", "step_begins"} <= {event["type"] for event in events_of(first)}
    assert first[-1].data["at"] <= second[0].data["at"]


def test_a_viewer_that_pauses_for_too_long_loses_events() -> None:
    (recording,) = record([10.0], slots=1, pause=9.0)
    assert recording[1].wire.startswith(b"event: lagged\n")
    assert recording[1].data["lost"] > 0
