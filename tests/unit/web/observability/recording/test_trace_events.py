"""The format of a recording."""

from __future__ import annotations

from web.observability.recording.trace_events import STEPS, held, instant, names, span, wait, work


def test_times_are_microseconds_and_lose_no_nanosecond() -> None:
    made = span(STEPS, "step 1", 1_234_567, 2_000_001, rows=3)
    assert (made["ts"], made["dur"]) == (1234.567, 765.434)
    assert round(made["ts"] * 1e3) + round(made["dur"] * 1e3) == 2_000_001
    assert instant(STEPS, "now", 1)["ts"] == 0.001


def test_a_wait_is_a_pair_of_one_id() -> None:
    begin, end = wait("a/0", 1000, 3000, slot=1)
    assert (begin["ph"], end["ph"]) == ("b", "e")
    assert all(begin[name] == end[name] for name in ("cat", "id2", "name", "pid", "tid"))
    assert (begin["ts"], end["ts"]) == (1.0, 3.0)


def test_each_track_has_a_name_and_a_place_of_its_own() -> None:
    tracks = [(event["pid"], event["tid"]) for event in names(3) if event["name"] == "thread_name"]
    assert len(set(tracks)) == len(tracks) == 4 + 2 * 3
    assert held(1) != work(1)
    assert not {tid for _, tid in tracks} & {pid for pid, _ in tracks}, "it would be taken for the main thread"
