"""Answers that are sent whole: the same events as a stream's, gathered into one object.

An answer may be megabytes long, most of it log-probabilities.  So each event becomes JSON when it comes, which is
little work, and what is kept of it is these bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Failed, FinishReason, Token
from actors.core.receipts import CancelReason
from web.bodies.json_encoding import JsonArrayBuilder, JsonStringBuilder
from web.openai.formats import UsageCounter

if TYPE_CHECKING:
    from actors.core.generation import Event, Finished
    from actors.generating.unread import Account
    from actors.request import Request
    from runtime.errors import CedeError
    from web.openai.formats import Format, Json, ResponseOptions


async def collect(request: Request, answer: ResponseBuilder, account: Account) -> Json:
    """Everything that `request` says, as the response object, or everything up to the first failure.

    Args:
        request: open, and nobody else's to read.
        answer: fresh.
        account: of which it is a part while it grows; a reader that is cut has its request cancelled.

    Raises:
        CedeError: a generation failed, or the reader was cut.
    """

    def give_up(error: CedeError) -> None:
        answer.fail(error)
        request.cancel(CancelReason.STALLED_READER)

    account.on_cut = give_up
    async for event in request:
        answer.add(event)
        account.hold(len(answer))
        if answer.failed:
            request.cancel(CancelReason.FAULT)  # no use in finishing the siblings
            break
    return answer.result()


class _Choice:
    """What one generation has said so far, as JSON.

    Args:
        options: how to answer.
        format: which endpoint's.
        index: of the choice.
        page: bytes of a page.
    """

    def __init__(self, options: ResponseOptions, format: Format, index: int, page: int) -> None:
        self._options = options
        self._format = format
        self._index = index
        self._text = JsonStringBuilder(page, options.echo[index] if options.echo else "")
        self._token_ids = JsonArrayBuilder(page)
        # The log-probabilities of several tokens are those of each, list by list.
        none = format.logprobs([], options.tokenizer, 0)
        self._logprobs = {name: JsonArrayBuilder(page) if value == [] else value for name, value in none.items()}
        self._offset = 0  # where the next token starts
        self.finish_reason: FinishReason | None = None

    def __len__(self) -> int:
        lists = [value for value in self._logprobs.values() if isinstance(value, JsonArrayBuilder)]
        return len(self._text) + len(self._token_ids) + sum(map(len, lists))

    def add(self, event: Token | Finished) -> None:
        if event.text:
            self._text.add(event.text)
        if not isinstance(event, Token):
            self.finish_reason = event.reason
            return
        if self._options.token_ids:
            self._token_ids.add(event.token_id)
        if self._options.logprobs:
            self._add_logprobs(event)

    def _add_logprobs(self, token: Token) -> None:
        tokenizer = self._options.tokenizer
        for name, value in self._format.logprobs([token], tokenizer, self._offset).items():
            if isinstance(array := self._logprobs[name], JsonArrayBuilder):
                array.add(*value)
        self._offset += len(tokenizer.token_text(token.token_id))

    def result(self) -> Json:
        shown: Json = {"index": self._index, "logprobs": None, "finish_reason": self.finish_reason}
        shown |= self._format.message(self._text)
        if self._options.logprobs:
            shown["logprobs"] = self._logprobs
        if self._options.token_ids:
            shown["token_ids"] = self._token_ids
            shown |= self._format.prompt_ids(self._options, self._index)[1]
        return shown


class ResponseBuilder:
    """Gathers a request's events.  Pure, like `ChunkWriter`.

    Args:
        options: how to answer.
        format: which endpoint's.
        page: bytes of the pages that it is kept in.
    """

    def __init__(self, options: ResponseOptions, format: Format, page: int) -> None:
        self._options = options
        self._format = format
        self._counter = UsageCounter(options)
        self._choices = [_Choice(options, format, index, page) for index in range(options.choices)]
        self._length = 0
        self._error: CedeError | None = None

    def __len__(self) -> int:
        """Bytes of what was gathered so far."""
        return self._length

    @property
    def failed(self) -> bool:
        """Whether a generation has failed, and the answer with it."""
        return self._error is not None

    def fail(self, error: CedeError) -> None:
        """It ends with `error`; what was gathered is dropped now, since the error may outlive this in a traceback."""
        self._error = self._error or error
        self._choices.clear()
        self._length = 0

    def add(self, event: Event) -> None:
        """Takes one event."""
        if isinstance(event, Failed):
            self.fail(event.error)
            return
        if self.failed:
            return
        choice = self._choices[event.index]
        before = len(choice)
        choice.add(event)
        self._length += len(choice) - before
        if not isinstance(event, Token):
            self._counter.add(event)

    def result(self) -> Json:
        """The response object, whose long parts are `SelfEncoding`.  Raises the CedeError that it ended with."""
        if self._error is not None:
            raise self._error
        answer = self._options.envelope(self._format.full)
        answer["choices"] = [choice.result() for choice in self._choices]
        if self._options.token_ids:
            answer |= self._format.prompt_ids(self._options, 0)[0]
        return answer | {"usage": self._counter.usage(), "timings": self._counter.timings()}
