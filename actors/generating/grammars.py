"""Grammars as the engine uses them: compiled in worker threads, and their masks computed beside the device's steps."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import trio

from runtime.grammar.compiler import GrammarCompiler
from runtime.grammar.worker import InlineMasks, MaskWorker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from runtime.grammar.grammar import Grammar
    from runtime.grammar.worker import MaskComputer
    from runtime.loading.served import ServedModel

COMPILING = 2
"""Grammars that are compiled at the same time: it takes a processor each."""


class OutputMatcher(Protocol):
    """Follows one output: `runtime.grammar.matcher.Matcher`, or `runtime.grammar.budget.BudgetMatcher`."""

    @property
    def holds_text(self) -> bool:
        """Return whether it says what the whole output is, and so when it may end."""

    @property
    def is_free(self) -> bool:
        """Return whether anything may follow from here on."""

    def accept(self, token_id: int) -> bool:
        """Take the output's next token; whether nothing but an end may follow."""

    def mask_after(self, token_ids: Sequence[int]) -> bytes | None:
        """Return which tokens may follow these; None where any may."""

    def is_complete_after(self, token_ids: Sequence[int] = ()) -> bool:
        """Return whether nothing but an end may follow these."""

    def count_valid(self, token_ids: Sequence[int]) -> int:
        """Return how many of these may follow."""

    def forced(self) -> list[int]:
        """Tokens that spell the only text which may follow."""


class Compiled(Protocol):
    """Compiled grammar that outputs can be held to: of `runtime.grammar.compiler`, `CompiledGrammar` or `Budgeted`."""

    def matcher(self) -> OutputMatcher:
        """A fresh matcher, for one output."""


class Compiler(Protocol):
    """Compiles the grammars of one model's requests: `runtime.grammar.compiler.GrammarCompiler`."""

    def constrain(self, grammar: Grammar) -> Compiled:
        """Compile what holds outputs to a grammar, or raise RequestError; called on any thread."""


class Grammars(Protocol):
    """Compiler of grammars and source of what computes masks."""

    async def compile(self, grammar: Grammar) -> Compiled:
        """Compile a grammar, or raise RequestError."""

    def masks(self) -> AbstractContextManager[MaskComputer]:
        """Yield what computes masks, while the scope lasts."""


class InlineGrammars:
    """Does everything at once in the caller's task: for tests, in which nothing may depend on threads.

    Args:
        compiler: of the model.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler

    async def compile(self, grammar: Grammar) -> Compiled:
        """Compile a grammar, as `Grammars.compile`."""
        await trio.lowlevel.checkpoint()
        return self._compiler.constrain(grammar)

    @contextmanager
    def masks(self) -> Iterator[MaskComputer]:
        """Yield what computes masks, as `Grammars.masks`."""
        yield InlineMasks()


class ThreadedGrammars:
    """Compiles in Trio's worker threads, and computes masks on one thread that lives as long as the engine.

    Args:
        compiler: of the model.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._limiter = trio.CapacityLimiter(COMPILING)

    async def compile(self, grammar: Grammar) -> Compiled:
        """Compile a grammar, as `Grammars.compile`.

        Who hangs up meanwhile is gone at once; the thread ends its work, which is bounded, and keeps its place until
        then.
        """
        return await trio.to_thread.run_sync(
            self._compiler.constrain, grammar, limiter=self._limiter, abandon_on_cancel=True
        )

    @contextmanager
    def masks(self) -> Iterator[MaskComputer]:
        """Yield what computes masks, as `Grammars.masks`."""
        with MaskWorker() as worker:
            yield worker


def compiler_of(model: ServedModel) -> GrammarCompiler:
    """Return a compiler of grammars for a model."""
    return GrammarCompiler(model.tokenizer, model.vocab_size, model.eos_token_ids)
