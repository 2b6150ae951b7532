"""Overview that is shown of samples."""

from __future__ import annotations

from tests.unit.web.commands.top.samples import POOL, request, sample, slot
from web.commands.top.overview import Overview, QueueRow


def test_speeds_are_those_between_two_samples() -> None:
    overview = Overview()
    overview.take(sample(1.0, [slot(0, "decode", "a"), slot(1)], [request("a", "decode", tokens=10)], steps=100))
    assert [row.speed for row in overview.slots()] == [None, None]
    assert overview.rate("steps") is None
    overview.take(sample(3.0, [slot(0, "decode", "a"), slot(1)], [request("a", "decode", tokens=50)], steps=140))
    assert [row.speed for row in overview.slots()] == [20.0, None]
    assert overview.rate("steps") == 20.0


def test_a_newcomer_has_no_speed_yet_and_a_restarted_server_no_negative_one() -> None:
    overview = Overview()
    overview.take(sample(1.0, [slot(0)], [], steps=100))
    overview.take(sample(2.0, [slot(0, "decode", "b")], [request("b", "decode", tokens=5)], steps=3))
    assert overview.slots()[0].speed is None
    assert overview.rate("steps") == 0


def test_those_who_wait_say_for_how_long_and_why() -> None:
    overview = Overview()
    waiting = [request("b", "queued", created=1001.0), request("c", "queued", created=1005.0)]
    overview.take(sample(4.0, [slot(0, "decode", "a"), slot(1, "prefill", "d")], [request("a", "decode"), *waiting]))
    assert overview.queue() == [
        QueueRow("b", 3.0, 7, "every slot is taken"),
        QueueRow("c", 0.0, 7, "every slot is taken, 1 before it"),  # whose clock is ahead of ours
    ]
    overview.take(sample(4.0, [slot(0, "decode", "a"), slot(1)], [request("b", "queued")]))
    assert overview.queue()[0].why == "it gets a slot with the next turn"
    overview.take(sample(5.0, [slot(0), slot(1)], [request("b", "queued")], pool=POOL | {"promised": 1400}))
    assert overview.queue()[0].why == "1400 of 1600 tokens of KV are reserved for those who run"
    overview.take(sample(6.0, [slot(0)], [request("a", "decode"), request("b", "queued") | {"after": "a"}]))
    assert overview.queue()[0].why == "a has not ended"


def chosen_after(overview: Overview, *moves: int) -> str | None:
    for move in moves:
        overview.move(move)
    return overview.chosen


def test_requests_are_chosen_one_after_the_other() -> None:
    overview = Overview()
    assert chosen_after(overview, 1) is None
    slots, both = [slot(0, "decode", "a"), slot(1, "decode", "a")], [request("a", "decode"), request("b", "queued")]
    overview.take(sample(1.0, slots, both))
    assert overview.ids() == ["a", "b"]
    assert [chosen_after(overview), chosen_after(overview, 1), chosen_after(overview, 1)] == ["a", "b", "a"]
    assert chosen_after(overview, -1) == "b"
    overview.take(sample(2.0, slots, both))
    assert chosen_after(overview) == "b"
    overview.take(sample(3.0, [slot(0, "decode", "a")], both[:1]))
    assert chosen_after(overview) == "a"


def test_a_server_that_is_lost_leaves_what_was_known() -> None:
    overview = Overview()
    first = sample(1.0, [slot(0)], [])
    overview.take(first)
    overview.lose("no server answers")
    assert (overview.newest, overview.problem) == (first, "no server answers")
    overview.take(sample(9.0, [slot(0)], [], steps=9))
    assert overview.problem is None
    assert overview.rate("steps") is None
