"""Order of those who wait: classes, shares inside them, and ageing across them."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.scheduling.order import MAX_LEVELS, Claim, Order

AGEING = 3.0
claims = st.lists(
    st.tuples(st.sampled_from([-10, 0, 10]), st.sampled_from(["alice", "bob", None]), st.integers(1, 50)), max_size=25
)


def order_of(*given: tuple[int, str | None]) -> Order[int]:
    order = Order[int](AGEING)
    for number, (priority, owner) in enumerate(given):
        order.add(Claim(number, number, 0.0, priority, owner))
    return order


def served(order: Order[int], now: float = 0.0, cost: float = 1.0) -> int:
    key = order.next(now)
    assert key is not None
    order.start(key, cost, now)
    return key


def test_one_owner_and_one_class_are_served_as_they_came() -> None:
    order = order_of(*[(0, None)] * 20)
    assert [served(order, cost=random.Random(n).randint(1, 99)) for n in range(20)] == [*range(20)]
    assert order.next(0.0) is None


def test_the_lower_number_goes_first() -> None:
    order = order_of((0, None), (10, None), (-10, None), (0, None))
    assert list(order) == [2, 0, 3, 1]
    assert [served(order) for _ in range(4)] == [2, 0, 3, 1]


def test_an_owner_who_asks_a_hundred_times_does_not_keep_another_waiting() -> None:
    order = order_of(*[(0, "alice")] * 100, (0, "bob"))
    assert [served(order, cost=10) for _ in range(3)] == [0, 100, 1]


def test_who_is_leaving_is_passed_over() -> None:
    order = order_of((0, "alice"), (0, "alice"), (0, "bob"))
    assert order.next(0.0, {0, 2}.__contains__) == 1
    assert order.next(0.0, {0, 1, 2}.__contains__) is None


def test_one_who_comes_back_takes_his_old_place() -> None:
    order = order_of((0, None), (0, None), (0, None))
    assert served(order) == 0
    order.add(Claim(0, 0, 9.0, 0, None))
    assert order.next(9.0) == 0
    order.resume(0, 9.0)
    assert [served(order), served(order)] == [1, 2]


def test_a_class_that_is_passed_over_ages() -> None:
    order = order_of((0, None), (10, None), (10, None))
    assert order.next(10 * AGEING - 0.1) == 0
    newcomer = Claim(9, 9, 10 * AGEING + 1, 0, None)
    served(order, 10 * AGEING - 0.1)
    order.add(newcomer)
    assert served(order, 10 * AGEING + 1) == 1
    assert served(order, 10 * AGEING + 1) == 9, "it goes first once, and then waits anew"


def test_what_was_charged_too_much_is_given_back() -> None:
    order = order_of(*[(0, "alice"), (0, "bob")] * 3)
    assert served(order, cost=1000) == 0
    order.settle(0, 10)
    assert served(order, cost=100) == 1
    assert served(order, cost=100) == 2
    order.settle(77, 1000)  # nobody


@given(claims, st.integers(0, 2**32))
@settings(deadline=None)
def test_whatever_comes_nobody_is_lost_or_served_twice(given: list[tuple[int, str | None, int]], seed: int) -> None:
    dice, order, now = random.Random(seed), Order[int](AGEING), 0.0
    waiting: dict[int, tuple[int, str | None]] = {}
    coming = list(enumerate(given))
    while coming or waiting:
        now += dice.random()
        if coming and (not waiting or dice.random() < 0.5):
            number, (priority, owner, _) = coming.pop(0)
            order.add(Claim(number, number, now, priority, owner))
            waiting[number] = priority, owner
            continue
        key = order.next(now)
        assert key is not None
        assert key in waiting
        assert not [other for other in waiting if other < key and waiting[other] == waiting[key]], "out of turn"
        if dice.random() < 0.3:
            order.remove(key)
        else:
            order.start(key, given[key][2], now)
        if dice.random() < 0.5:
            order.settle(key, dice.randint(0, 100))
        del waiting[key]
        assert set(order) == set(waiting)
        assert len(order) == len(waiting)
    assert order.next(now) is None


@given(st.integers(0, 2**32), st.sampled_from([(-1, 0), (0, 10), (-1000, 1000)]))
@settings(deadline=None, max_examples=30)
def test_a_class_is_served_in_bounded_time_whoever_presses_upon_it(seed: int, numbers: tuple[int, int]) -> None:
    dice, order, now, number = random.Random(seed), Order[int](AGEING), 0.0, 0
    better, worse = numbers
    bound = min(worse - better, MAX_LEVELS) * AGEING
    last = 0.0
    order.add(Claim(-1, -1, 0.0, worse))
    for _ in range(300):
        now += dice.random()
        number += 1
        order.add(Claim(number, number, now, better))
        key = order.next(now)
        assert key is not None
        assert key >= 0 or now - last > bound - AGEING, "too early"
        assert key < 0 or now - last <= bound + 2, "starved"
        order.start(key, 5, now)
        if key < 0:
            last = now
            order.add(Claim(key, key, now, worse))


@given(
    st.tuples(st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([1.0, 2.0])),
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.integers(1, 4),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_shares_are_close_to_the_weights(
    weights: tuple[float, float], sizes: tuple[int, int], slots: int, guesses_badly: bool
) -> None:
    """Two owners who always want more, whose requests differ in size: what each got, for its weight, is the same.

    It may differ by a few of their largest requests, as in any start-time fair queueing with several servers.
    """
    order, used, running, number = Order[int](AGEING), [0.0, 0.0], list[tuple[int, int]](), 0
    for _ in range(600):
        for owner in (0, 1):
            while sum(key % 2 == owner for key in order) < 2:
                number += 1
                order.add(Claim(2 * number + owner, 2 * number + owner, 0.0, 0, str(owner), weights[owner]))
        if len(running) == slots:
            key, owner = running.pop(0)
            order.settle(key, sizes[owner])
            used[owner] += sizes[owner]
        next_key = order.next(0.0)
        assert next_key is not None
        owner = next_key % 2
        order.start(next_key, 50 if guesses_badly else sizes[owner], 0.0)
        running.append((next_key, owner))
    lag = abs(used[0] / weights[0] - used[1] / weights[1])
    largest = max(max(sizes[owner], 50) / weights[owner] for owner in (0, 1))
    assert lag <= (slots + 2) * 2 * largest, (used, lag)


def test_who_was_preempted_is_some_levels_ahead_and_the_most_important_is_not() -> None:
    order = order_of((0, None))
    order.add(Claim(7, 7, 0.0, 3, None, levels=5))
    assert order.next(0.0) == 7
    assert order.most_important() == 0
    assert order.most_important(lambda key: key == 0) == 7
