"""Order in which requests are the newest, in whichever order the workers hear of one another's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from web.cluster.control.succession import REMEMBERED, Stamp, Succession

NAME = "editor"


def test_one_that_comes_after_another_was_heard_of_is_newer_whatever_it_is_called() -> None:
    first, second = Succession(), Succession()
    stamp, newest = first.comes(NAME, "z")
    assert stamp == newest
    second.hears(NAME, stamp)
    later, newest = second.comes(NAME, "a")
    assert later == newest > stamp
    assert first.hears(NAME, later) == later


def test_one_that_goes_on_at_another_worker_is_as_old_as_it_was() -> None:
    worker = Succession()
    old, _ = Succession().comes(NAME, "old")
    worker.hears(NAME, old)
    new, _ = worker.comes(NAME, "new")
    assert worker.comes(NAME, "old") == (old, new)


def test_names_have_nothing_to_do_with_one_another() -> None:
    worker = Succession()
    worker.comes(NAME, "a")
    stamp, newest = worker.comes("other", "b")
    assert stamp == newest == (1, "b")


@given(st.data())
def test_of_any_that_come_anywhere_exactly_one_is_the_newest_for_all(data: st.DataObject) -> None:
    workers = [Succession() for _ in range(3)]
    on_the_way: list[tuple[int, Stamp]] = []
    ids = data.draw(st.permutations("abcde"))
    while ids or on_the_way:
        if ids and (not on_the_way or data.draw(st.booleans())):
            here = data.draw(st.integers(0, 2))
            stamp, _ = workers[here].comes(NAME, ids.pop())
            on_the_way += [(there, stamp) for there in range(3) if there != here]
        else:
            there, stamp = on_the_way.pop(data.draw(st.integers(0, len(on_the_way) - 1)))
            workers[there].hears(NAME, stamp)
    newest = {worker.hears(NAME, (0, "")) for worker in workers}
    assert len(newest) == 1
    assert newest.pop()[1] in "abcde"


def test_what_was_heard_of_last_is_remembered() -> None:
    worker = Succession()
    for number in range(REMEMBERED + 1):
        worker.comes(f"n{number}", "a")
    assert worker.comes("n0", "b")[0] == (1, "b")
    assert worker.comes(f"n{REMEMBERED}", "b")[0] == (2, "b")
