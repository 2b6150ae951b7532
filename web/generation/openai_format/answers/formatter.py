"""An answer of OpenAI's: as a stream of chunks, which are server-sent events, and as one object.

A whole answer may be megabytes long, most of it log-probabilities.  So each event becomes JSON when it comes, which is
little work, and only these bytes are held.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Generic, Literal, NotRequired, TypeVar

from typing_extensions import TypedDict

from actors.core.generation import Finished, FinishReason, PromptScored, Token
from runtime.chat.parts import TextPart
from web.bodies.event_stream import iter_sse, sse
from web.bodies.json_encoding import JsonObject, Long, dumps
from web.generation.answer import Formatter, Gathered
from web.generation.answer_parts import TOOL_CALLS, AnswerParts
from web.generation.control.fields import CancelNote, cancel_note
from web.generation.openai_format.answers.prompt_scores import PromptLogprob, echoed_tokens, prompt_logprobs
from web.generation.openai_format.answers.usage import RunningUsage, Timings, Usage, UsageCounter, timings
from web.generation.openai_format.errors import error_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.bodies.errors.problem import Problem
    from web.generation.openai_format.answers.options import ResponseOptions

DONE = b"data: [DONE]\n\n"

Reason = Literal["stop", "length", "tool_calls"]


class Envelope(TypedDict):
    """Fields of every object of a response."""

    id: str
    created: int
    model: str
    system_fingerprint: str


class AnyPiece(TypedDict):
    """Fields of a choice of a chunk."""

    index: int
    cede: NotRequired[CancelNote]
    token_ids: NotRequired[list[int]]


class AnyChunk(Envelope):
    """Fields of a chunk."""

    usage: NotRequired[Usage | RunningUsage | None]
    timings: NotRequired[Timings]


class AnyAnswer(Envelope):
    """Fields of a whole answer."""

    usage: Usage
    timings: Timings


class ChoiceIds(TypedDict, total=False):
    """Tokens of a choice, where they were asked for."""

    token_ids: Long[list[int]]


class AboutPrompt(TypedDict, total=False):
    """Fields that tell of a prompt, where they were asked for."""

    prompt_token_ids: tuple[int, ...]
    prompt_logprobs: Long[list[dict[str, PromptLogprob] | None]]


PieceT = TypeVar("PieceT", bound=AnyPiece)
LogprobsT = TypeVar("LogprobsT", bound=JsonObject)


class CompletionFormatter(Formatter, Generic[PieceT, LogprobsT]):
    """Shows the choices of an answer; each of the two endpoints adds how they look.

    Args:
        options: how to answer.
        page_bytes: of the pages that a whole answer is held in; None for a stream that nobody keeps.
    """

    def __init__(self, options: ResponseOptions, page_bytes: int | None = None) -> None:
        echo = options.echo or ("",) * options.choices
        super().__init__(
            AnswerParts(options.parser, options.choices, one_text=True),
            options.choices,
            [Gathered(page_bytes, text) for text in echo] if page_bytes else (),
        )
        self._options = options
        self._counter = UsageCounter(options)
        self._begun: set[int] = set()  # choices whose first chunk was written
        self._offsets = [0] * options.choices  # characters before the next token of each
        self._logprobs: LogprobsT | None = None  # of the tokens that the last event has
        self._plain = not (options.logprobs or options.token_ids or options.running_usage)

    # --- where the endpoints differ -----------------------------------------------------------------------------------

    @abstractmethod
    def _piece(self, index: int, logprobs: LogprobsT | None = None) -> PieceT:
        """Return a chunk's choice that shows nothing yet."""

    @abstractmethod
    def _show(self, piece: PieceT, part: Part) -> bool:
        """Put a part into a piece; return false where the part shows nothing."""

    @abstractmethod
    def _end(self, piece: PieceT, reason: Reason) -> None:
        """Put into a piece why its choice ended."""

    @abstractmethod
    def _chunk(self, *pieces: PieceT) -> AnyChunk:
        """Return a chunk of these pieces."""

    @abstractmethod
    def _first(self, index: int) -> AnyChunk | None:
        """Return the first chunk of a choice; None where the text may begin at once."""

    @abstractmethod
    def _logprobs_of(self, tokens: Sequence[Token], offset: int) -> LogprobsT:
        """Return the log-probabilities of tokens, the first of which begins `offset` characters into the text."""

    # ------------------------------------------------------------------------------------------------------------------

    def take(self, event: Progress) -> Sequence[Part]:
        """Take an event; see `Formatter`."""
        if isinstance(event, Finished):
            self._counter.add(event)
        options = self._options
        if options.logprobs:
            self._logprobs = self._scores(event)
        if self.gathered:
            gathered = self.gathered[event.index]
            for name, value in (self._logprobs or {}).items():
                if isinstance(value, list):
                    gathered.extend(name, value)
            if options.token_ids and isinstance(event, Token):
                gathered.extend("token_ids", [event.token_id])
            if isinstance(event, PromptScored) and options.prompt_logprobs is not None:
                scores = prompt_logprobs(event, options.prompt_logprobs, options.tokenizer)
                gathered.extend("prompt_logprobs", scores)
        return super().take(event)

    def _scores(self, event: Progress) -> LogprobsT | None:
        match event:
            case Token():
                tokens = [event]
            case PromptScored() if self._options.echo_logprobs is not None:
                tokens = echoed_tokens(event, self._options.echo_logprobs)
            case _:
                return None
        tokenizer, offset = self._options.tokenizer, self._offsets[event.index]
        self._offsets[event.index] += sum(len(tokenizer.token_text(token.token_id)) for token in tokens)
        return self._logprobs_of(tokens, offset)

    # --- in pieces ----------------------------------------------------------------------------------------------------

    def pieces(self, event: Progress, parts: Sequence[Part]) -> Iterable[bytes]:
        """Return the chunks for an event; the first of a choice may hold the ids of a long prompt.  See `Formatter`."""
        opening = self._opening(event.index)
        match event:
            case Token():
                chunks = self._token(event, parts)
            case PromptScored():
                scored = self._logprobs is not None
                chunks = [sse(self._chunk(self._piece(event.index, self._logprobs)))] if scored else []
            case Finished():
                chunks = [*(self._part(event.index, part) for part in parts), self._last(event)]
        return chain(opening, chunks) if opening else chunks

    def _opening(self, index: int) -> Iterable[bytes]:
        """Return the first chunk of a choice, once."""
        if index in self._begun:
            return ()
        self._begun.add(index)
        chunk = self._first(index)
        if chunk is None:
            return ()
        may_be_long = self._options.token_ids or self._options.echo
        return iter_sse(chunk) if may_be_long else (sse(chunk),)

    def _token(self, token: Token, parts: Sequence[Part]) -> Sequence[bytes]:
        self._counter.add_token()
        if self._plain:
            return [self._part(token.index, part) for part in parts]
        # The first of its chunks, which may show nothing else, has what is known of the token.
        first, *rest = parts or (TextPart(""),)
        piece = self._piece(token.index, self._logprobs)
        self._show(piece, first)
        if self._options.token_ids:
            piece["token_ids"] = [token.token_id]
        return [sse(self._chunk(piece)), *(self._part(token.index, part) for part in rest)]

    def _part(self, index: int, part: Part) -> bytes:
        if isinstance(part, TextPart) and not part.text:
            return b""
        if isinstance(part, TextPart) and not self._options.running_usage:  # which no template has
            return self._text(index, part.text)
        piece = self._piece(index)
        return sse(self._chunk(piece)) if self._show(piece, part) else b""

    def _text(self, index: int, text: str) -> bytes:
        """Return the chunk of a plain token, at the cost of encoding its text alone."""
        heads, tail = self._text_template
        return f"{heads[index]}{dumps(text)}{tail}".encode()

    @cached_property
    def _text_template(self) -> tuple[list[str], str]:
        """Return what stands before the text of a plain chunk, for each choice, and what stands after it."""
        placeholder = "\0"
        heads, tail = [], ""
        for index in range(self._options.choices):
            piece = self._piece(index)
            self._show(piece, TextPart(placeholder))
            head, _, tail = sse(self._chunk(piece)).decode().rpartition(dumps(placeholder))
            heads.append(head)
        return heads, tail

    def _last(self, event: Finished) -> bytes:
        """Return the last chunk of a choice."""
        piece = self._piece(event.index)
        self._end(piece, self._reason(event))
        if note := cancel_note(event):
            piece["cede"] = note["cede"]
        chunk = self._chunk(piece)
        chunk["timings"] = timings([event.timings])
        return sse(chunk)

    def _reason(self, finished: Finished) -> Reason:
        """Return why a choice ended.

        OpenAI's clients have no word for a request that was cancelled while they listen: to them it was cut short, as
        by a limit, and why is in a field of ours.
        """
        if finished.cancelled is not None or finished.reason is not FinishReason.STOP:
            return "length"
        return "tool_calls" if self.parts.reason(finished) == TOOL_CALLS else "stop"

    def _tell_usage(self, chunk: AnyChunk) -> None:
        """Put into a chunk what it is to say of the usage."""
        if self._options.running_usage:
            chunk["usage"] = self._counter.running()
        elif self._options.include_usage:
            chunk["usage"] = None

    def keep_alive(self) -> bytes:
        """Return a chunk without a text: a comment would not wake a client's timer for chunks."""
        index = next((index for index in range(self.generations) if index not in self.ends), 0)
        return sse(self._chunk(self._piece(index)))

    def closing(self) -> bytes:
        """Return the end of a complete stream: the usage, if the client asked for it, and `[DONE]`."""
        if not self._options.include_usage:
            return DONE
        last = self._chunk()
        last["usage"], last["timings"] = self._usage(), self._counter.timings()
        return sse(last) + DONE

    def _usage(self) -> Usage:
        return self._counter.usage(self.parts.reasoning_tokens)

    def error(self, problem: Problem) -> bytes:
        """Return an error object, behind which there is no `[DONE]`, as in OpenAI's; see `Formatter`."""
        return sse(error_object(problem))

    # --- as a whole ---------------------------------------------------------------------------------------------------

    def _shown(self) -> list[int]:
        """Return the generations to show: of each prompt's the best, the likeliest first."""
        each, shown = self._options.n, self._options.shown
        every = range(self._options.choices)
        if shown >= each:
            return list(every)
        groups = [every[first : first + each] for first in range(0, len(every), each)]
        return [best for group in groups for best in sorted(group, key=self._unlikelihood)[:shown]]

    def _unlikelihood(self, index: int) -> float:
        return -self.gathered[index].likelihood

    def _choice_ids(self, index: int) -> ChoiceIds:
        return {"token_ids": self.gathered[index].array("token_ids")} if self._options.token_ids else {}

    def _about_prompt(self, index: int) -> AboutPrompt:
        """Return the fields that tell of a generation's prompt."""
        fields: AboutPrompt = {}
        if self._options.token_ids:
            fields["prompt_token_ids"] = self._options.prompts[index]
        if self._options.prompt_logprobs is not None:
            fields["prompt_logprobs"] = self.gathered[index].array("prompt_logprobs")
        return fields
