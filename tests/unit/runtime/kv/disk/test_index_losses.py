"""Losses are noted while somebody wants to know, and said once until they are taken."""

from __future__ import annotations

from runtime.kv.disk.index import Losses


def test_who_watches_is_woken_once_until_the_losses_are_taken() -> None:
    losses = Losses()
    woken: list[int] = []
    losses.watch(lambda: woken.append(1))
    losses.note([])
    assert woken == []
    losses.note([b"a"])
    losses.note([b"b"])
    assert woken == [1]
    assert losses.take() == [b"a", b"b"]
    losses.note([b"c"])
    assert woken == [1, 1]


def test_nothing_is_noted_while_nobody_watches() -> None:
    losses = Losses()
    losses.note([b"a"])
    assert losses.take() == []
    losses.watch(lambda: None)
    losses.watch(None)
    losses.note([b"b"])
    assert losses.take() == []
