"""Grammars are compiled beside the event loop, or at once."""

from __future__ import annotations

import threading

import pytest
import trio

from actors.generating.grammars import InlineGrammars, ThreadedGrammars
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.grammar.masks import Mask
from runtime.grammar.worker import InlineMasks, MaskWorker

GRAMMAR = Grammar(GrammarKind.REGEX, "a")


class Compiling:
    """A compiler that says where it was called, and takes as long as it is told to."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def constrain(self, grammar: Grammar) -> None:
        """Compile nothing."""
        self.threads.append(threading.current_thread())
        self.begun.set()
        self.go_on.wait()
        raise RequestError("refused")


async def test_inline_all_happens_in_the_callers_task() -> None:
    compiler = Compiling()
    grammars = InlineGrammars(compiler)  # type: ignore[arg-type]
    with pytest.raises(RequestError):
        await grammars.compile(GRAMMAR)
    assert compiler.threads == [threading.current_thread()]
    with grammars.masks() as masks:
        assert isinstance(masks, InlineMasks)


async def test_with_threads_the_event_loop_compiles_and_masks_nothing() -> None:
    compiler = Compiling()
    grammars = ThreadedGrammars(compiler)  # type: ignore[arg-type]
    with pytest.raises(RequestError):
        await grammars.compile(GRAMMAR)
    assert compiler.threads != [threading.current_thread()]
    with grammars.masks() as masks:
        assert isinstance(masks, MaskWorker)
        masks.submit(mask := Mask(lambda: b"bits"))
        assert mask.take() == b"bits"


async def test_who_hangs_up_does_not_wait_for_what_is_compiled() -> None:
    compiler = Compiling()
    compiler.go_on.clear()
    grammars = ThreadedGrammars(compiler)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grammars.compile, GRAMMAR)
        await trio.to_thread.run_sync(compiler.begun.wait)
        nursery.cancel_scope.cancel()
    assert not compiler.go_on.is_set()
    compiler.go_on.set()
