"""An answer of OpenAI's: as a stream of chunks, which are server-sent events, and as one object.

A whole answer may be megabytes long, most of it log-probabilities.  So each event becomes JSON when it comes, which is
little work, and only these bytes are held.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from actors.core.generation import Finished, PromptScored, Token
from runtime.chat.parts import CallArguments, CallStart, TextPart
from web.bodies.event_stream import iter_sse, sse
from web.bodies.json_encoding import dumps
from web.generation.answer import TEXT, THOUGHT, Formatter, Gathered
from web.generation.answer_parts import AnswerParts
from web.generation.openai_format.answers.format import call_of, ending
from web.generation.openai_format.answers.prompt_scores import echoed_tokens, prompt_logprobs
from web.generation.openai_format.answers.usage import UsageCounter, timings
from web.generation.openai_format.errors import error_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.bodies.errors.problem import Problem
    from web.generation.openai_format.answers.format import Call, Json, ResponseOptions

DONE = b"data: [DONE]\n\n"


class CompletionFormatter(Formatter):
    """Shows the choices of an answer as either endpoint does.

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
        self._format = options.format
        self._counter = UsageCounter(options)
        self._calls: dict[tuple[int, int], Call] = {}  # by choice and number
        self._begun: set[int] = set()  # choices whose first chunk was written
        self._offsets = [0] * options.choices  # characters before the next token of each
        self._details: Json = {}  # fields of the tokens that the last event has
        self._plain = not (options.logprobs or options.token_ids or options.running_usage)

    def take(self, event: Progress) -> Sequence[Part]:
        """Take an event; see `Formatter`."""
        if isinstance(event, Finished):
            self._counter.add(event)
        self._details = {} if self._plain else self._details_of(event)
        if self.gathered:
            gathered = self.gathered[event.index]
            for name, value in (self._details.get("logprobs", {}) | self._details).items():
                if isinstance(value, list):
                    gathered.extend(name, value)
            if isinstance(event, PromptScored) and (alternatives := self._options.prompt_logprobs) is not None:
                gathered.extend("prompt_logprobs", prompt_logprobs(event, alternatives, self._options.tokenizer))
        return super().take(event)

    def _details_of(self, event: Progress) -> Json:
        match event:
            case Token():
                ids = {"token_ids": [event.token_id]} if self._options.token_ids else {}
                return self._logprobs(event.index, [event]) | ids
            case PromptScored() if self._options.echo_logprobs is not None:
                return self._logprobs(event.index, echoed_tokens(event, self._options.echo_logprobs))
        return {}

    def _logprobs(self, index: int, tokens: Sequence[Token]) -> Json:
        if not self._options.logprobs:
            return {}
        tokenizer, offset = self._options.tokenizer, self._offsets[index]
        self._offsets[index] += sum(len(tokenizer.token_text(token.token_id)) for token in tokens)
        return {"logprobs": self._format.logprobs(tokens, tokenizer, offset)}

    # --- in pieces ----------------------------------------------------------------------------------------------------

    def pieces(self, event: Progress, parts: Sequence[Part]) -> Iterable[bytes]:
        """Return the chunks for an event; the first of a choice may hold the ids of a long prompt.  See `Formatter`."""
        opening = self._opening(event.index)
        match event:
            case Token():
                chunks = self._token(event, parts)
            case PromptScored():
                chunks = [self._empty(event.index, self._details)] if self._details else []
            case Finished():
                why = ending(self._format, event, self.parts.reason(event))
                last = self._chunk(event.index, (self._format.delta(None) or {}) | why)
                last["timings"] = timings([event.timings])
                chunks = [*(self._part(event.index, part) for part in parts), sse(last)]
        return chain(opening, chunks) if opening else chunks

    def _opening(self, index: int) -> Iterable[bytes]:
        """Return the first chunk of a choice, once."""
        if index in self._begun:
            return ()
        self._begun.add(index)
        fields = self._format.opening(self._options, index)
        if fields is None:
            return ()
        about = {"prompt_token_ids": self._options.prompts[index]} if self._options.token_ids else {}
        envelope, choice = self._format.about_prompt(about)
        opening = self._chunk(index, fields | choice) | envelope
        may_be_long = self._options.token_ids or self._options.echo
        return iter_sse(opening) if may_be_long else (sse(opening),)

    def _token(self, token: Token, parts: Sequence[Part]) -> Sequence[bytes]:
        self._counter.add_token()
        if self._plain:
            return [self._part(token.index, part) for part in parts]
        # The first of its chunks, which may show nothing else, has what is known of the token.
        first, *rest = parts or (TextPart(""),)
        detailed = self._empty(token.index, self._fields(token.index, first) | self._details)
        return [detailed, *(self._part(token.index, part) for part in rest)]

    def _part(self, index: int, part: Part) -> bytes:
        if isinstance(part, TextPart) and not part.text:
            return b""
        if isinstance(part, TextPart) and not self._options.running_usage:  # which no template has
            return self._text(index, part.text)
        fields = self._fields(index, part)
        return sse(self._chunk(index, fields)) if fields else b""

    def _fields(self, index: int, part: Part) -> Json:
        call = None
        if isinstance(part, CallStart):
            call = self._calls[index, part.call] = call_of(self._options, index, part)
        elif isinstance(part, CallArguments):
            call = self._calls[index, part.call]
        return self._format.delta(part, call) or {}

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
            chunk = sse(self._chunk(index, self._format.delta(TextPart(placeholder)) or {})).decode()
            head, _, tail = chunk.rpartition(dumps(placeholder))
            heads.append(head)
        return heads, tail

    def _empty(self, index: int, fields: Json) -> bytes:
        """Return a chunk of these fields, without a text if they have none."""
        return sse(self._chunk(index, (self._format.delta(None) or {}) | fields))

    def _chunk(self, index: int, fields: Json) -> Json:
        chunk = self._options.envelope(self._format.chunk)
        chunk["choices"] = [{"index": index, "logprobs": None, "finish_reason": None} | fields]
        if self._options.running_usage:
            return chunk | {"usage": self._counter.running()}
        return chunk | {"usage": None} if self._options.include_usage else chunk

    def keep_alive(self) -> bytes:
        """Return a chunk without a text: a comment would not wake a client's timer for chunks."""
        return self._empty(next((index for index in range(self.generations) if index not in self.ends), 0), {})

    def closing(self) -> bytes:
        """Return the end of a complete stream: the usage, if the client asked for it, and `[DONE]`."""
        if not self._options.include_usage:
            return DONE
        usage = self._counter.usage(self.parts.reasoning_tokens)
        last = self._options.envelope(self._format.chunk) | {"choices": [], "usage": usage}
        return sse(last | {"timings": self._counter.timings()}) + DONE

    def error(self, problem: Problem) -> bytes:
        """Return an error object, behind which there is no `[DONE]`, as in OpenAI's; see `Formatter`."""
        return sse(error_object(problem))

    # --- as a whole ---------------------------------------------------------------------------------------------------

    def result(self) -> Json:
        """Return the response object; see `Formatter`."""
        shown = self._shown()
        response = self._options.envelope(self._format.full)
        response["choices"] = [self._choice(index, number) for number, index in enumerate(shown)]
        response |= self._format.about_prompt(self._about_prompt(shown[0]))[0]
        usage = self._counter.usage(self.parts.reasoning_tokens)
        return response | {"usage": usage, "timings": self._counter.timings()}

    def _shown(self) -> list[int]:
        """Return the generations to show: of each prompt's the best, the likeliest first."""
        each, shown = self._options.n, self._options.shown or self._options.n
        every = range(self._options.choices)
        if shown >= each:
            return list(every)
        groups = [every[first : first + each] for first in range(0, len(every), each)]
        return [best for group in groups for best in sorted(group, key=self._unlikelihood)[:shown]]

    def _unlikelihood(self, index: int) -> float:
        return -self.gathered[index].likelihood

    def _choice(self, index: int, number: int) -> Json:
        """Return a generation as the choice of that number."""
        gathered, end = self.gathered[index], self.ends[index]
        choice: Json = {"index": number, "logprobs": None, "finish_reason": None}
        choice |= ending(self._format, end, self.parts.reason(end))
        calls = [(call_of(self._options, index, start), arguments) for start, arguments in gathered.calls]
        choice |= self._format.message(gathered.content(TEXT), gathered.content(THOUGHT), calls)
        if self._options.logprobs:
            empty = self._format.logprobs([], self._options.tokenizer, 0)
            choice["logprobs"] = {name: gathered.array(name) if value == [] else value for name, value in empty.items()}
        if self._options.token_ids:
            choice["token_ids"] = gathered.array("token_ids")
        return choice | self._format.about_prompt(self._about_prompt(index))[1]

    def _about_prompt(self, index: int) -> Json:
        """Return the fields that tell of a generation's prompt."""
        fields: Json = {"prompt_token_ids": self._options.prompts[index]} if self._options.token_ids else {}
        if self._options.prompt_logprobs is not None:
            fields["prompt_logprobs"] = self.gathered[index].array("prompt_logprobs")
        return fields
