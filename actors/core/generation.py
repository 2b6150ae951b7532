"""Requests of clients, and the events they are told: plain frozen data, shared by the actors and the web layer.

One `GenerationRequest` is one HTTP request.  It may hold several *generations* (prompts x n), each with an index, a
ticket, a hold and an actor of its own; they share the request's id, cancel scope and buffer.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from actors.control import NO_CONTROL, Control
from actors.core.life import State  # noqa: TC001  what is shown of a request is a schema, too
from runtime.step.prompt_rows.wanted import NO_OUTPUTS, PromptOutputs
from runtime.text.stop_strings import NO_STOPS, StopAutomaton

if TYPE_CHECKING:
    from array import array

    from actors.core.receipts import CancelReason
    from runtime.errors import CedeError
    from runtime.grammar.grammar import Grammar
    from runtime.sampling.params import SamplingParams
    from runtime.sampling.tokens import TokenLogprobs
    from runtime.step.prompt_rows.wanted import TokenScore


class FinishReason(enum.StrEnum):
    """Reason why a generation ended; the values are what the OpenAI API shows."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The trace that a request is a part of, as W3C's headers say; nobody has looked at it yet."""

    traceparent: str
    tracestate: str = ""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A validated request.  The web layer has checked every range; nothing has been allocated yet.

    Attributes:
        id: unique among live requests; also the id of the HTTP response.
        prompts: token ids, one tuple per generation (a request with n=3 holds its prompt three times).
        sampling: shared by all generations; generation i draws from `sampling.for_choice(i)`.
        max_tokens: at most this many new tokens per generation; 0 only reads the prompt, None means up to the context.
        stop: strings that end the text, themselves not emitted; one automaton for all generations.
        ignore_eos: do not end at the model's end-of-sequence tokens.
        end_ids: further tokens that end an output, whatever `ignore_eos` says.
        allowed: the tokens that may be drawn; empty for all.  Not together with a grammar.
        prediction: what the output probably is, as token ids; drafts are looked up in it.
        continues: the output carries on the prompt's own text (a completion), so a leading space is part of it.
        cache_prompt: whether KV computed earlier may be used for the prompt.
        timeout: seconds from admission to the deadline; None for the server's default.
        speculate: whether tokens may be drafted.
        visible: special tokens that are spelled out in the text, for whoever parses it.
        grammar: what each output must be.  It decides when an output may end, whatever `ignore_eos` and `min_tokens`
            say; one that `max_tokens` or a stop string ends is the beginning of what was to be.
        outputs: what each prompt is to give besides KV.
        owner: the name of the API key that asked; None where there are no keys.
        queue_share: how much of the queue the owner's generations may take, from 0 to 1.
        session: what the client calls the session that the request belongs to; None where it says nothing of one.
        trace: which the client has begun; None where it says nothing of one.
        control: what the client says of its fate.
        priority: of its generations: the lower, the earlier, as in vLLM.
        weight: of its owner's share among those of the same priority.
        emitted: how many tokens at the end of the prompt are output already, which was made and sent elsewhere:
            penalties, `min_tokens` and stop strings count them; `max_tokens` does not.
    """

    id: str
    prompts: tuple[tuple[int, ...], ...]
    sampling: SamplingParams
    max_tokens: int | None = None
    stop: StopAutomaton = NO_STOPS
    ignore_eos: bool = False
    end_ids: tuple[int, ...] = ()
    allowed: tuple[int, ...] = ()
    prediction: tuple[int, ...] = ()
    continues: bool = False
    cache_prompt: bool = True
    timeout: float | None = None
    speculate: bool = True
    visible: frozenset[int] = frozenset()
    grammar: Grammar | None = None
    outputs: PromptOutputs = NO_OUTPUTS
    owner: str | None = None
    queue_share: float = 1.0
    session: str | None = None
    trace: TraceContext | None = None
    control: Control = NO_CONTROL
    priority: int = 0
    weight: float = 1.0
    emitted: int = 0

    @property
    def reuses_kv(self) -> bool:
        """Return whether KV of earlier requests may serve the prompts: it has no states for what they are to give."""
        return self.cache_prompt and not self.outputs.needs_all_rows


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's figures for one generation; milliseconds."""

    prompt_n: int  # prompt tokens computed
    cache_n: int  # prompt tokens found already computed
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    draft_n: int = 0  # tokens drafted
    draft_n_accepted: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.  `text` may be empty: part of a character, or held back as a possible stop string."""

    index: int
    token_id: int
    text: str
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True, slots=True)
class PromptScored:
    """Scores of some tokens of the prompt; those of all such events, in order, are the whole prompt.

    Attributes:
        index: of the generation.
        tokens: ids, each with its score; None for the first of the prompt, before which there is nothing.
    """

    index: int
    tokens: tuple[tuple[int, TokenScore | None], ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a generation that ended well or was cancelled.

    Attributes:
        text: what had been held back.
        stop_string: the stop string that ended it, if one did.
        cancelled: why it was cancelled; None for one that ended well.
        vector: the pooled state of the prompt, float32, not normalised, where the request wanted it.
        warmed_tokens: of a warm request, how many tokens of the prompt a request that comes next will find read.
    """

    index: int
    reason: FinishReason
    text: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    timings: Timings
    stop_string: str | None = None
    cancelled: CancelReason | None = None
    vector: array[float] | None = None
    warmed_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The last event of a generation that met an error; its siblings are not affected."""

    index: int
    error: CedeError


Progress: TypeAlias = PromptScored | Token | Finished
"""What happens to a generation that does not fail."""

Event: TypeAlias = Progress | Failed


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """A request that is queued or runs, with an entry of `states` and `slots` for each of its generations.

    Attributes:
        created: seconds since the epoch, like the deadline.
        slots: None for a generation that has none.
        owner: the name of the API key that asked.
        deadline: when it is cancelled if it has not ended; None if it may take for ever.
        priority: the lower, the earlier.
        group: this and those below, to `warm`: what the request said of itself, in `cede`.
        parks: how often one of its generations left its slot to a more important one.
        parked_seconds: for how long, in all, until now.
    """

    id: str
    created: float
    states: tuple[State, ...]
    prompt_tokens: int
    completion_tokens: int
    slots: tuple[int | None, ...] = ()
    owner: str | None = None
    deadline: float | None = None
    priority: int = 0
    group: str | None = None
    supersede: str | None = None
    first_wins: bool = False
    after: str | None = None
    warm: bool = False
    parks: int = 0
    parked_seconds: float = 0.0
