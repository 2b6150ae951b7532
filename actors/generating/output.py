"""Output of a generation so far, and whether that is the end of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.core.generation import FinishReason, Token
from runtime.sampling.tokens import SampleSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from actors.generating.constraint import Constraint
    from runtime.sampling.params import SamplingParams
    from runtime.sampling.tokens import SampledToken, TokenMask
    from runtime.text.text_stream import TextDelta


class Text(Protocol):
    """Turns tokens into text and watches for stop strings: `runtime.text.text_stream.TextStream`."""

    @property
    def stop_found(self) -> str | None:
        """The stop string that ended the text; None while none did."""
        ...

    def push(self, token_id: int, *, match_stops: bool = True) -> TextDelta:
        """Take the next token; return the text that is certain now, and whether a stop string has come."""
        ...

    def flush(self) -> str:
        """Return the text that was held back, once no token follows."""
        ...


class Output:
    """The growing output of one generation.

    Args:
        index: of the generation in its request.
        prompt: token ids.
        params: with the seed resolved.
        max_tokens: the output ends at this many.
        end_ids: tokens that end it; empty to ignore them.
        text: fresh.
        emit: takes each `Token`; never blocks.
        allowed: which tokens may be drawn; None for any.
        constraint: of its grammar, which then decides alone when the output may end: `min_tokens` holds back stop
            strings only.  One that bounds nothing but a thought leaves that as it is.  None where there is none.
        emitted: how many tokens at the end of the prompt are output that was sent already.

    Attributes:
        constraint: the same.
    """

    def __init__(
        self,
        index: int,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        max_tokens: int,
        end_ids: Collection[int],
        text: Text,
        emit: Callable[[Token], None],
        allowed: TokenMask | None = None,
        constraint: Constraint | None = None,
        emitted: int = 0,
    ) -> None:
        self.index = index
        self._params = params
        self._context = list(prompt)
        self._prompt_length = len(prompt)
        self._max_tokens = max_tokens
        self._end_ids = tuple(end_ids)
        self._text = text
        self._emit = emit
        self._allowed = allowed
        self.constraint = constraint
        self._emitted = emitted
        for token_id in self._context[self._prompt_length - emitted :]:
            text.push(token_id, match_stops=False)  # none of them has ended the output

    def __len__(self) -> int:
        """Tokens generated here, the one that ended the output included."""
        return len(self._context) - self._prompt_length

    @property
    def sequence(self) -> Sequence[int]:
        """Prompt and output so far; not to be changed."""
        return self._context

    @property
    def tokens_left(self) -> int:
        """Return how many more tokens the output may have."""
        return self._max_tokens - len(self)

    @property
    def most_tokens(self) -> int:
        """Return how many tokens may be drawn one after the other before it has to be asked again."""
        return 1 if self.masks() else self.tokens_left

    @property
    def stop_found(self) -> str | None:
        """The stop string that ended the output; None while none did."""
        return self._text.stop_found

    def ends_with(self, drafted: Sequence[int]) -> bool:
        """Return whether nothing would follow the output and these, of which there is at least one."""
        return drafted[-1] in self._end_ids or (self.constraint is not None and self.constraint.is_complete(drafted))

    def first_sample(self) -> SampleSpec | None:
        """Return how the first token is to be drawn; None where the output is to have none."""
        return self.next_sample() if self.tokens_left > 0 else None

    def next_sample(self, drafted: Sequence[int] = ()) -> SampleSpec:
        """Return how the next token is to be drawn, and those that follow each of the drafted ones."""
        return SampleSpec(
            params=self._params,
            position=len(self._context),
            generated=self._emitted + len(self),
            context=self._context,
            end_ids=() if self.constraint is not None and self.constraint.holds_text else self._end_ids,
            masks=self.masks(drafted),
        )

    def masks(self, drafted: Sequence[int] = ()) -> tuple[TokenMask, ...]:
        """Return which tokens may come next, and after each of the drafted ones; empty where any may."""
        if self.constraint is not None:
            return self.constraint.masks(drafted)
        return () if self._allowed is None else (self._allowed,) * (len(drafted) + 1)

    def accept(self, token: SampledToken) -> FinishReason | None:
        """Take the next token and emit it.  Returns why the output ends with it, or None if it goes on.

        Raises:
            GrammarFailed: the token is not what the grammar allows; it is not emitted.
        """
        is_complete = self.constraint is not None and self.constraint.accept(token.token_id)
        self._context.append(token.token_id)
        if token.token_id in self._end_ids:
            self._emit(Token(self.index, token.token_id, "", token.logprobs))
            return FinishReason.STOP
        # As with end tokens, the first that may end the output is the one after `min_tokens`.
        delta = self._text.push(token.token_id, match_stops=self._emitted + len(self) > self._params.min_tokens)
        self._emit(Token(self.index, token.token_id, delta.text, token.logprobs))
        if delta.stopped:
            return FinishReason.STOP
        if is_complete:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self) >= self._max_tokens else None

    def rest(self) -> str:
        """Text that was held back as the possible beginning of a stop string, once none can follow any more."""
        return self._text.flush() if self.stop_found is None else ""
