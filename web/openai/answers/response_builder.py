"""Responses that are sent whole: the same events as a stream's, collected into one object.

A response may be megabytes long, most of it log-probabilities.  So each event becomes JSON when it comes, which is
little work, and only these bytes are held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Finished, PromptScored, Token
from runtime.chat.parts import CallArguments, CallStart, ReasoningPart, TextPart
from web.bodies.json_encoding import JsonArrayBuilder, JsonStringBuilder
from web.generation.answer_parts import AnswerParts
from web.openai.answers.format import WholeAnswer, WholeCall, call_of, ending
from web.openai.answers.prompt_scores import echoed_tokens, prompt_logprobs
from web.openai.answers.usage import UsageCounter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.openai.answers.format import Json, ResponseOptions


class ResponseBuilder:
    """Builds the response object of one request; a `collect.EventCollector`.  Pure, like `chunks.ChunkWriter`.

    Args:
        options: how to answer.
        page_bytes: of the pages that the bytes are held in.
    """

    def __init__(self, options: ResponseOptions, page_bytes: int) -> None:
        self._options = options
        self._format = options.format
        self._counter = UsageCounter(options)
        self._parts = AnswerParts(options.parser, options.choices, one_text=True)
        self._choices = [_ChoiceBuilder(options, index, page_bytes) for index in range(options.choices)]
        self._length = 0

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return self._length

    def add(self, event: Progress) -> None:
        """Add one event."""
        choice = self._choices[event.index]
        before = len(choice)
        choice.add(event, self._parts.of(event))
        if isinstance(event, Finished):
            choice.ending = ending(self._format, event, self._parts.reason(event))
            self._counter.add(event)
        self._length += len(choice) - before

    def result(self) -> Json:
        """Return the response object, whose long parts are `SelfEncoding`."""
        response = self._options.envelope(self._format.full)
        shown = self._shown()
        response["choices"] = [choice.result(index) for index, choice in enumerate(shown)]
        response |= self._format.about_prompt(shown[0].about_prompt())[0]
        usage = self._counter.usage(self._parts.reasoning_tokens)
        return response | {"usage": usage, "timings": self._counter.timings()}

    def _shown(self) -> list[_ChoiceBuilder]:
        """Return the choices to show: of each prompt's generations the best, the likeliest first."""
        each, shown = self._options.n, self._options.shown or self._options.n
        if shown >= each:
            return self._choices
        groups = [self._choices[first : first + each] for first in range(0, len(self._choices), each)]
        return [best for group in groups for best in sorted(group, key=lambda choice: -choice.likelihood)[:shown]]


class _ChoiceBuilder:
    """Builds one choice of a response.

    Args:
        options: how to answer.
        index: of the choice.
        page_bytes: of the pages that the bytes are held in.

    Attributes:
        ending: the fields that say why it ended; to be set once it has.
    """

    def __init__(self, options: ResponseOptions, index: int, page_bytes: int) -> None:
        self._options = options
        self._format = options.format
        self._index = index
        self._page_bytes = page_bytes
        self._text = JsonStringBuilder(page_bytes, options.echo[index] if options.echo else "")
        self._empty = len(self._text)
        self._reasoning: JsonStringBuilder | None = None
        self._calls: list[tuple[WholeCall, JsonStringBuilder]] = []
        self._token_ids = JsonArrayBuilder(page_bytes)
        # The log-probabilities of several tokens are those of each, list by list.
        empty = options.format.logprobs([], options.tokenizer, 0)
        self._logprobs = {name: JsonArrayBuilder(page_bytes) if value == [] else value for name, value in empty.items()}
        self._offset = 0  # characters before the next token
        self._prompt_logprobs = JsonArrayBuilder(page_bytes)
        self.ending: Json = {}
        self._tokens = 0
        self._logprob = 0.0

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        lists = [value for value in self._logprobs.values() if isinstance(value, JsonArrayBuilder)]
        reasoning = 0 if self._reasoning is None else len(self._reasoning)
        calls = sum(len(whole.call.name) + len(arguments) for whole, arguments in self._calls)
        tokens = (self._token_ids, self._prompt_logprobs, *lists)
        return len(self._text) + reasoning + calls + sum(map(len, tokens))

    def add(self, event: Progress, parts: Sequence[Part]) -> None:
        """Add an event of this choice, and the parts that it made certain."""
        for part in parts:
            self._add_part(part)
        if isinstance(event, PromptScored):
            self._add_prompt(event)
        if not isinstance(event, Token):
            return
        if event.logprobs is not None:
            self._tokens += 1
            self._logprob += event.logprobs.logprob
        if self._options.token_ids:
            self._token_ids.add(event.token_id)
        if self._options.logprobs:
            self._add_logprobs(event)

    def _add_prompt(self, event: PromptScored) -> None:
        if (alternatives := self._options.echo_logprobs) is not None:
            for token in echoed_tokens(event, alternatives):
                self._add_logprobs(token)
        if (alternatives := self._options.prompt_logprobs) is not None:
            for score in prompt_logprobs(event, alternatives, self._options.tokenizer):
                self._prompt_logprobs.add(score)

    def _add_part(self, part: Part) -> None:
        match part:
            case TextPart(text) if text:
                self._text.add(text)
            case ReasoningPart(text):
                if self._reasoning is None:
                    self._reasoning = JsonStringBuilder(self._page_bytes)
                self._reasoning.add(text)
            case CallStart():
                arguments = JsonStringBuilder(self._page_bytes)
                self._calls.append((WholeCall(call_of(self._options, self._index, part), arguments), arguments))
            case CallArguments(call, text):
                self._calls[call][1].add(text)

    def _add_logprobs(self, token: Token) -> None:
        tokenizer = self._options.tokenizer
        for name, value in self._format.logprobs([token], tokenizer, self._offset).items():
            if isinstance(array := self._logprobs[name], JsonArrayBuilder):
                array.add(*value)
        self._offset += len(tokenizer.token_text(token.token_id))

    @property
    def likelihood(self) -> float:
        """The mean log-probability of its tokens; 0 without any."""
        return self._logprob / self._tokens if self._tokens else 0.0

    def result(self, index: int) -> Json:
        """Return the choice, whose long parts are `SelfEncoding`, under this index."""
        choice: Json = {"index": index, "logprobs": None, "finish_reason": None} | self.ending
        has_text = len(self._text) > self._empty
        calls = [call for call, _ in self._calls]
        choice |= self._format.message(WholeAnswer(self._text, has_text, self._reasoning, calls))
        if self._options.logprobs:
            choice["logprobs"] = self._logprobs
        if self._options.token_ids:
            choice["token_ids"] = self._token_ids
        return choice | self._format.about_prompt(self.about_prompt())[1]

    def about_prompt(self) -> Json:
        """Return the fields that tell of its prompt, whose long parts are `SelfEncoding`."""
        fields: Json = {"prompt_token_ids": self._options.prompts[self._index]} if self._options.token_ids else {}
        if self._options.prompt_logprobs is not None:
            fields["prompt_logprobs"] = self._prompt_logprobs
        return fields
