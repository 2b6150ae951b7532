"""News that a reader has not taken: bounded, in order, and each thing with its worker."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.web.cluster.control.feed.workers import A, B, frame, snapshot
from web.cluster.control.feed.untaken import Standing, Untaken
from web.observability.inspection.feed.frames import LAGGED, SNAPSHOT

JOINED, SILENT, LEFT = ({"standing": standing} for standing in ("joined", "silent", "left"))


def numbers(value: dict[str, list[dict[str, int]]]) -> list[int]:
    return [event["n"] for event in value["events"]]


def test_each_thing_says_of_which_worker_it_is_and_none_waits_behind_another() -> None:
    untaken = Untaken()
    untaken.say(A, Standing.JOINED)
    untaken.add(B, frame(1))
    untaken.add(A, snapshot())
    untaken.add(B, frame(2))
    assert untaken.take() == [
        ("worker", {"worker": A} | JOINED),
        ("snapshot", {"worker": A, **snapshot().value}),
    ]
    ((kind, value),) = untaken.take()
    assert (kind, value["worker"], numbers(value)) == ("frame", B, [1, 2])
    assert not untaken.has_news


def test_what_is_not_taken_is_one_frame_and_who_is_too_slow_is_told_what_was_lost() -> None:
    untaken = Untaken(capacity=3)
    for n in range(5):
        untaken.add(A, frame(n))
    ((kind, value),) = untaken.take()
    assert (kind, numbers(value), value["lost"]) == (LAGGED, [2, 3, 4], 2)
    untaken.add(A, frame(5, lost=7))
    ((kind, value),) = untaken.take()
    assert (kind, numbers(value), value["lost"]) == ("frame", [5], 7)


def test_a_snapshot_begins_anew_and_keeps_what_it_alone_has() -> None:
    untaken = Untaken()
    untaken.add(A, frame(1, 2))
    first = snapshot()
    untaken.add(A, first._replace(value={**first.value, "model": "m"}))
    untaken.add(A, frame(3))
    ((kind, value),) = untaken.take()
    assert (kind, numbers(value), value["lost"], value["model"]) == (LAGGED, [3], 2, "m")
    untaken.add(A, snapshot())
    untaken.add(A, frame(4))
    assert [kind for kind, _ in untaken.take()] == [SNAPSHOT]


def test_what_became_of_a_worker_stands_where_it_became_so() -> None:
    untaken = Untaken()
    untaken.add(A, frame(1))
    untaken.say(A, Standing.SILENT)
    assert [kind for kind, _ in untaken.take()] == ["frame", "worker"]
    untaken.say(A, Standing.SILENT)
    untaken.add(A, frame(2))
    assert [kind for kind, _ in untaken.take()] == ["worker", "frame"]
    untaken.add(A, frame(3))
    untaken.say(A, Standing.SILENT)
    untaken.add(A, frame(4))
    ((kind, value),) = untaken.take()  # its frame says that it is there
    assert (kind, numbers(value)) == ("frame", [3, 4])


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 5) | st.sampled_from(Standing) | st.none())))
def test_no_event_is_neither_told_nor_counted(steps: list[tuple[str, int | Standing | None]]) -> None:
    untaken, happened, told = Untaken(capacity=4), dict.fromkeys([A, B], 0), dict.fromkeys([A, B], 0)

    def take() -> None:
        for kind, value in untaken.take():
            if kind != "worker":
                told[value["worker"]] += len(value["events"]) + value["lost"]
                assert len(value["events"]) <= 4 or kind == "frame"

    for worker, step in steps:
        if isinstance(step, Standing):
            untaken.say(worker, step)
        elif step is None:
            if untaken.has_news:
                take()
        else:
            untaken.add(worker, frame(*range(step)) if step else snapshot())
            happened[worker] += step
    while untaken.has_news:
        take()
    assert told == happened


async def test_who_waits_is_woken_by_news_and_by_the_end(nursery: trio.Nursery) -> None:
    untaken = Untaken()
    for wake in (partial(untaken.say, A, Standing.LEFT), partial(untaken.add, A, frame(1)), untaken.end):
        woken = trio.Event()

        async def wait(woken: trio.Event = woken) -> None:
            await untaken.wait()
            woken.set()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not woken.is_set()
        wake()
        await woken.wait()
        if untaken.has_news:
            untaken.take()
