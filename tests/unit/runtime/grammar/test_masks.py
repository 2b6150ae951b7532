"""A mask is computed once, by whoever comes first, and waited for by who comes second."""

from __future__ import annotations

import logging
import threading

import pytest

from runtime.grammar.masks import Mask


def test_it_is_computed_once() -> None:
    calls: list[int] = []

    def compute() -> bytes:
        calls.append(1)
        return b"bits"

    mask = Mask(compute)
    assert (mask.take(), mask.take(), calls) == (b"bits", b"bits", [1])


def test_who_comes_while_another_is_at_it_waits_for_that_one() -> None:
    begun, go_on = threading.Event(), threading.Event()
    calls: list[str] = []

    def compute() -> bytes:
        calls.append(threading.current_thread().name)
        begun.set()
        go_on.wait()
        return b"bits"

    mask = Mask(compute)
    worker = threading.Thread(target=mask.take, name="worker")
    worker.start()
    begun.wait()
    taken: list[bytes | None] = []
    sampler = threading.Thread(target=lambda: taken.append(mask.take()), name="sampler")
    sampler.start()
    sampler.join(timeout=0.05)  # one that does not wait is through by then
    go_on.set()
    worker.join()
    sampler.join()
    assert (taken, calls) == ([b"bits"], ["worker"])


def test_what_cannot_be_computed_allows_any_token_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    mask = Mask(lambda: bytes([1 // 0]))
    with caplog.at_level(logging.ERROR):
        assert (mask.take(), mask.take()) == (None, None)
    assert isinstance(mask.error, ZeroDivisionError)
    assert len(caplog.records) == 1
