"""Compiles the grammars of requests for one model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from runtime.errors import RequestError
from runtime.grammar.budget import BudgetMatcher, CompiledBudget
from runtime.grammar.grammar import GrammarKind
from runtime.grammar.matcher import Matcher
from runtime.grammar.sources import library_source, readable_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from runtime.grammar.grammar import Grammar
    from runtime.text.tokenizer import Tokenizer


def load_vocabulary(tokenizer: Tokenizer, vocab_size: int, end_ids: Collection[int]) -> LLTokenizer:
    """Return the library's tokenizer, which knows the bytes that each token adds to a text; it takes a second to make.

    The bytes are those that `runtime.text.text_stream` sends to clients, and so what is matched is what they see.

    Args:
        tokenizer: the model's.
        vocab_size: logits of a row.  Those without a token are never allowed.
        end_ids: tokens that may end an output where its grammar is complete.  Of a model without any, a token that
            does not exist takes their place; its outputs end where nothing may follow.
    """
    size = max(vocab_size, tokenizer.vocab_size)
    spelled = tokenizer.vocabulary
    ends = sorted(end_ids) or [size]
    size = max(size, *(end + 1 for end in ends))
    source = _Source(tokenizer, spelled, size, ends[0])
    return LLTokenizer(TokenizerWrapper(source), n_vocab=size, eos_token=ends)


class _Source:
    """Source that `TokenizerWrapper` reads, by the names that it reads; called with a text, it returns token ids."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, spelled: dict[str, int], size: int, end_id: int) -> None:
        self.eos_token_id = end_id
        self.tokens = [b""] * size
        for spelling, token_id in spelled.items():
            self.tokens[token_id] = tokenizer.rules.piece(spelling)
        self.tokens[end_id] = self.tokens[end_id] or b"<end>"
        # Added tokens are a format's markers, special or not, and no text: a grammar names them.  Some models have
        # added runs of spaces, which are text.
        markers = {token_id for spelling, token_id in tokenizer.added_tokens.items() if spelling.strip()}
        self.special_token_ids = sorted({*tokenizer.special_ids, *markers, end_id})
        self._tokenizer = tokenizer

    def __call__(self, text: str | bytes) -> list[int]:
        """Tokenise a text, of which the library takes no more than what a grammar forces."""
        whole = text.decode(errors="ignore") if isinstance(text, bytes) else text
        return self._tokenizer.encode(whole, add_special_tokens=False)


MAX_KEPT = 32
"""Grammars that are kept compiled: a client that asks for the same schema again and again waits for it once."""

MAX_KEPT_CHARACTERS = 2**20
"""Of the sources of those: a large schema takes forty bytes for each, compiled (`bench.engine.memory.held`)."""

WORD_BYTES = 4
WORD_BITS = 32


def parser_limits() -> LLParserLimits:
    """Return what one grammar may cost, in the library's units of work, which do not depend on the machine's speed.

    Compiling takes up to a few tenths of a second, a mask up to some tens of milliseconds (a third of a second for the
    worst that was found); beyond that the library gives up, and the request with it.  Ordinary schemas take a hundredth
    of this.  The time of an item grows with those of its row, so that both counts bound a mask; by the library's own, a
    hostile one took fifteen times as long.
    """
    return LLParserLimits(
        initial_lexer_fuel=500_000,
        step_lexer_fuel=200_000,
        step_max_items=20_000,
        max_items_in_row=1000,
        max_lexer_states=20_000,
        max_grammar_size=200_000,
        verbose_errors=False,
    )


@dataclass(frozen=True, slots=True)
class CompiledGrammar:
    """A grammar that the model's outputs can be held to; shared by all outputs of a request."""

    template: LLMatcher
    mask_bytes: int

    def matcher(self) -> Matcher:
        """Return a fresh matcher, for one output."""
        return Matcher(self.template, self.mask_bytes)


@dataclass(frozen=True, slots=True)
class Budgeted:
    """A grammar, if there is one, beside a budget of thought."""

    grammar: CompiledGrammar | None
    budget: CompiledBudget

    def matcher(self) -> BudgetMatcher:
        """Return a fresh matcher, for one output."""
        return BudgetMatcher(self.budget, self.grammar.matcher() if self.grammar else None)


class GrammarCompiler:
    """Compiles grammars for one model; any thread may use it.

    The vocabulary is made with the first grammar: a server that is never asked for one does without.

    Args:
        tokenizer: the model's.
        vocab_size: logits of a row.
        end_ids: tokens that end an output.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, end_ids: tuple[int, ...]) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._end_ids = end_ids
        self._vocabulary: LLTokenizer | None = None
        self._kept: OrderedDict[Grammar, CompiledGrammar] = OrderedDict()  # by its last use
        self._vocabulary_lock, self._kept_lock = threading.Lock(), threading.Lock()

    def constrain(self, grammar: Grammar) -> CompiledGrammar | Budgeted:
        """Return what holds outputs to a grammar, compiled as by `compile`, and to its budget of thought."""
        if grammar.budget is None:
            return self.compile(grammar)
        budget = CompiledBudget(grammar.budget, self._tokenizer, self._vocab_size)
        held = None if grammar.kind is GrammarKind.ANY else self.compile(replace(grammar, budget=None))
        return Budgeted(held, budget)

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Compile a grammar, which may take some tenths of a second; the interpreter is let go meanwhile.

        Raises:
            RequestError: it is not valid, asks for what is not supported, or is too large; the message says what.
        """
        if (kept := self._find(grammar)) is not None:
            return kept
        source = library_source(grammar)
        matcher = LLMatcher(self._load_vocabulary(), source, log_level=0, limits=parser_limits())
        first = matcher if matcher.is_error() else matcher.deep_copy()
        if not first.is_error():
            first.compute_bitmask()  # so that what cannot even begin is refused, and takes no slot
        if first.is_error():
            for _, embedded in grammar.embedded:
                self.compile(embedded)  # says it of the one that the client wrote, if that is at fault
            raise RequestError(readable_error(grammar, first.get_error()), param=grammar.param)
        mask_bytes = -(-self._vocab_size // WORD_BITS) * WORD_BYTES
        return self._keep(grammar, CompiledGrammar(matcher, mask_bytes))

    def _load_vocabulary(self) -> LLTokenizer:
        with self._vocabulary_lock:  # who comes meanwhile waits for the one that there will be
            if self._vocabulary is None:
                self._vocabulary = load_vocabulary(self._tokenizer, self._vocab_size, self._end_ids)
            return self._vocabulary

    def _find(self, grammar: Grammar) -> CompiledGrammar | None:
        with self._kept_lock:
            if grammar in self._kept:
                self._kept.move_to_end(grammar)
            return self._kept.get(grammar)

    def _keep(self, grammar: Grammar, compiled: CompiledGrammar) -> CompiledGrammar:
        with self._kept_lock:
            self._kept[grammar] = compiled
            while len(self._kept) > MAX_KEPT or sum(one.size for one in self._kept) > MAX_KEPT_CHARACTERS:
                self._kept.popitem(last=False)
        return compiled
