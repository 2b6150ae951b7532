"""Parts that each generation of a request is made of."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from actors.core.places.state_pool import most_of_round
from actors.generating.constraint import Constraint
from actors.generating.draft_length import MAX_DRAFTS, Acceptance, DraftLength
from actors.generating.drafting import Drafting, LookupSource, ModelSource
from actors.generating.output import Output
from actors.generating.request_log import RequestLog
from runtime.grammar.grammar import GrammarKind
from runtime.loading.served import Proposer
from runtime.sampling.tokens import AllowedTokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.config import EngineConfig
    from actors.core.generation import Event, GenerationRequest
    from actors.generating.grammars import Compiled
    from actors.scheduling.costs import StepCosts
    from runtime.grammar.worker import MaskComputer
    from runtime.loading.served import ServedModel

FORCED_RATE = 0.9
"""How often the target is expected to spell what a grammar forces as the tokenizer does, before any was seen."""

PREDICTED_RATE = 0.8
"""How often the target is expected to agree with a prediction of the client's, before any was seen."""


class Assembly:
    """Makes the outputs of generations, and their drafts.

    Args:
        model: that is served.
        config: of the engine.
        costs: what steps take.
        masks: computes those of grammars.
    """

    def __init__(self, model: ServedModel, config: EngineConfig, costs: StepCosts, masks: MaskComputer) -> None:
        self._model = model
        self._config = config
        self._costs = costs
        self._masks = masks
        self._acceptance = Acceptance()
        self._forced_acceptance = Acceptance(FORCED_RATE)
        self._predicted_acceptance = Acceptance(PREDICTED_RATE)

    def outputs(
        self, asked: GenerationRequest, grammar: Compiled | None
    ) -> Callable[[int, Callable[[Event], None]], Output]:
        """Return what makes the output of generation i, which emits to the function given."""
        params = asked.sampling
        if params.seed is None:
            params = replace(params, seed=secrets.randbits(63), reproducible=False)

        held = asked.grammar is not None and asked.grammar.kind is not GrammarKind.ANY
        allowed = AllowedTokens(asked.allowed, self._model.vocab_size) if asked.allowed else None

        def output(index: int, emit: Callable[[Event], None]) -> Output:
            prompt = asked.prompts[index]
            room = self._model.context_length - len(prompt)
            return Output(
                index,
                prompt,
                params.for_choice(index),
                max_tokens=room if asked.max_tokens is None else min(asked.max_tokens, room),
                end_ids=(*(() if asked.ignore_eos and not held else self._model.eos_token_ids), *asked.end_ids),
                # What a grammar was matched with is sent as it is, the space of a first token included.
                text=self._model.text(asked.stop, continues=asked.continues or held, visible=asked.visible),
                emit=emit,
                allowed=allowed,
                constraint=None if grammar is None else Constraint(grammar.matcher(), self._masks),
                emitted=asked.emitted,
            )

        return output

    def log(self, asked: GenerationRequest) -> RequestLog:
        """Return what says how a request ended."""
        spell = partial(self._model.tokenizer.decode, skip_special_tokens=False) if self._config.log_texts else None
        return RequestLog(asked, self._model.name, spell)

    def drafting(self, asked: GenerationRequest) -> Drafting | None:
        """The drafts of one generation; None where it gets none."""
        if self._config.speculate is Proposer.OFF or not asked.speculate:
            return None
        buffers, target = self._model.state_buffers, self._costs.target
        states = most_of_round(buffers, self._config.slots) if buffers else MAX_DRAFTS + 1
        new_length = partial(DraftLength, self._config.draft_tokens, states=states)
        forced = new_length(prior=self._forced_acceptance)
        if asked.prediction:
            length = new_length(prior=self._predicted_acceptance)
            return Drafting(LookupSource(asked.prediction), length, target, None, forced)
        if self._config.speculate is Proposer.NGRAM:
            return Drafting(LookupSource(), new_length(prior=self._acceptance), target, None, forced)
        most = min(MAX_DRAFTS, states - 1)  # behind drafts that have left no state a model drafts nothing
        length = new_length(prior=self._acceptance, max_drafts=most)
        return Drafting(ModelSource(), length, target, self._costs.drafter, forced)
