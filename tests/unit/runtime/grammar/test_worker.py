"""The thread that computes masks."""

from __future__ import annotations

import threading
import weakref

from runtime.grammar.masks import Mask
from runtime.grammar.worker import InlineMasks, MaskWorker
from tests.live.server import PATIENCE


def test_masks_are_computed_on_a_thread_of_their_own() -> None:
    done = threading.Event()
    names: list[str] = []

    def compute() -> bytes:
        names.append(threading.current_thread().name)
        done.set()
        return b"bits"

    with MaskWorker() as worker:
        mask = Mask(compute)
        worker.submit(mask)
        done.wait()
        assert mask.take() == b"bits"
    assert names == ["cede-masks"]


def test_the_thread_goes_on_after_a_mask_that_fails_and_ends_with_the_scope() -> None:
    with MaskWorker() as worker:
        failing = Mask(lambda: bytes([1 // 0]))
        worker.submit(failing)
        mask = Mask(lambda: b"bits")
        worker.submit(mask)
        assert mask.take() == b"bits"
    assert "cede-masks" not in {thread.name for thread in threading.enumerate()}


def test_what_nobody_needs_any_more_is_not_computed() -> None:
    begun, go_on = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow() -> bytes:
        begun.set()
        go_on.wait()
        return b""

    def needless() -> bytes:
        calls.append("computed")
        return b""

    with MaskWorker() as worker:
        worker.submit(Mask(slow))
        begun.wait()
        worker.submit(Mask(needless))
        worker.end()
        go_on.set()
    assert calls == []


def test_a_quick_mask_is_left_to_whoever_needs_it() -> None:
    calls: list[str] = []

    def quick() -> bytes:
        calls.append(threading.current_thread().name)
        return b"quick"

    with MaskWorker() as worker:
        mask, last = Mask(quick, expected=0.0), Mask(lambda: b"last")
        done = threading.Event()
        weakref.finalize(last, done.set)
        worker.submit(mask)
        worker.submit(last)
        del last
        assert done.wait(PATIENCE), "the thread computes in order, so it has been past the first one"
        assert calls == []
        assert mask.take() == b"quick"
    assert calls == [threading.current_thread().name]


def test_a_mask_that_was_computed_is_not_kept() -> None:
    with MaskWorker() as worker:
        done = threading.Event()

        def compute() -> bytes:
            return b""

        computed = weakref.ref(compute)
        mask = Mask(compute)
        gone = weakref.finalize(mask, done.set)
        worker.submit(mask)
        del mask, compute
        assert done.wait(PATIENCE), "the thread waits for the next one, and holds the last"
        assert not gone.alive
        assert computed() is None


def test_inline_masks_are_there_at_once() -> None:
    calls: list[int] = []

    def compute() -> bytes:
        calls.append(1)
        return b""

    InlineMasks().submit(Mask(compute))
    assert calls == [1]
