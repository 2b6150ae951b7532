"""Answers that are sent whole: the same events as a stream's, gathered into one object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.generation import Failed, FinishReason, Token
from actors.receipts import CancelReason
from web.replies import Tally

if TYPE_CHECKING:
    from actors.generation import Event, Finished
    from actors.request import Request
    from runtime.errors import CedeError
    from web.replies import Format, Json, Reply


async def collect(request: Request, reply: Reply, format: Format) -> Answer:
    """Everything that `request` says, or everything up to the first failure."""
    answer = Answer(reply, format)
    async for event in request:
        answer.add(event)
        if answer.failed:
            request.cancel(CancelReason.FAULT)  # no use in finishing the siblings
            break
    return answer


@dataclass(slots=True)
class _Choice:
    """What one generation has said so far."""

    texts: list[str] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    finish_reason: FinishReason | None = None


class Answer:
    """Gathers a request's events.  Pure, like `streaming.ChunkWriter`."""

    def __init__(self, reply: Reply, format: Format) -> None:
        self._reply = reply
        self._format = format
        self._tally = Tally(reply)
        self._choices = [_Choice() for _ in range(reply.choices)]
        self._error: CedeError | None = None

    @property
    def failed(self) -> bool:
        """Whether a generation has failed, and the answer with it."""
        return self._error is not None

    def add(self, event: Event) -> None:
        """Takes one event."""
        if isinstance(event, Failed):
            self._error = event.error
            return
        choice = self._choices[event.index]
        choice.texts.append(event.text)
        if isinstance(event, Token):
            choice.tokens.append(event)
        else:
            self._finish(choice, event)

    def result(self) -> Json:
        """The response object.  Raises the CedeError of a generation that failed."""
        if self._error is not None:
            raise self._error
        answer = self._reply.envelope(self._format.full)
        answer["choices"] = [self._choice(index) for index in range(self._reply.choices)]
        if self._reply.token_ids:
            answer |= self._format.prompt_ids(self._reply, 0)[0]
        return answer | {"usage": self._tally.usage(), "timings": self._tally.timings()}

    def _finish(self, choice: _Choice, event: Finished) -> None:
        choice.finish_reason = event.reason
        self._tally.add(event)

    def _choice(self, index: int) -> Json:
        choice = self._choices[index]
        text = (self._reply.echo[index] if self._reply.echo else "") + "".join(choice.texts)
        shown: Json = {"index": index, "logprobs": None, "finish_reason": choice.finish_reason}
        shown |= self._format.message(text)
        if self._reply.logprobs:
            shown["logprobs"] = self._format.logprobs(choice.tokens, self._reply.tokenizer, 0)
        if self._reply.token_ids:
            shown["token_ids"] = [token.token_id for token in choice.tokens]
            shown |= self._format.prompt_ids(self._reply, index)[1]
        return shown
