"""The virtual time of owners, and how long an output is expected to be."""

from __future__ import annotations

from actors.scheduling.shares import FIRST_GUESS, FairShares, OutputLengths


def test_nobody_saves_up_a_share_while_it_wants_nothing() -> None:
    shares = FairShares[int]()
    for number in range(10):
        shares.charge(number, "alice", 1.0, 100, since=0.0)
        shares.settle(number, 100)
    assert shares.now == 900
    assert shares.start_of("bob", since=shares.now) == 900
    assert shares.start_of("alice", since=0.0) == 1000


def test_weights_make_tokens_cheaper() -> None:
    shares = FairShares[int]()
    shares.charge(1, "alice", 4.0, 100, since=0.0)
    assert shares.start_of("alice", 0.0) == 25
    shares.settle(1, 200)
    assert shares.start_of("alice", 0.0) == 50


def test_owners_who_are_not_ahead_are_forgotten() -> None:
    shares = FairShares[int]()
    for number in range(100):
        shares.charge(number, f"owner {number}", 1.0, 10, since=shares.now)
        shares.settle(number, 0)
    shares.forget(["owner 3"])
    assert len(shares) == 1
    shares.forget([])
    assert len(shares) == 0


def test_the_expected_length_follows_what_was_seen() -> None:
    lengths = OutputLengths()
    assert lengths.expected(None) == FIRST_GUESS
    assert lengths.expected(5) == 5
    for _ in range(100):
        lengths.learn(10)
    assert 10 <= lengths.expected(None) < 11
