"""The answers of `POST /infill`, in the shape of llama-server's completions: a stream of objects, or one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.core.generation import Failed, Finished, FinishReason, PromptScored, Token
from web.bodies.event_stream import CONTENT_TYPE, HEADERS, sse
from web.bodies.json_encoding import JsonArrayBuilder, JsonStringBuilder
from web.control.told import told
from web.errors.problem import INTERNAL, Problem, report
from web.openai.answers.usage import timings
from web.openai.errors import error_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.generation import Event, Progress
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InfillOptions:
    """What a request says about its answer.

    Attributes:
        model: the name that the client used.
        tokenizer: of the model, for the text of single tokens.
        prompt_tokens: how many the prompt has.
        logprobs: whether to show log-probabilities.
        tokens: whether a whole answer has its token ids; a stream always has them.
        fields: paths of what the last object is to have, such as `timings/prompt_n`; all where there are none.
    """

    model: str
    tokenizer: Tokenizer
    prompt_tokens: int
    logprobs: bool = False
    tokens: bool = False
    fields: tuple[str, ...] = ()

    def piece(self, content: str, token_ids: Sequence[int], predicted: int) -> Json:
        """Return the object of a piece of the answer, of which `predicted` tokens have come so far."""
        return {
            "index": 0,
            "content": content,
            "tokens": token_ids,
            "stop": False,
            "tokens_predicted": predicted,
            "tokens_evaluated": self.prompt_tokens,
        }

    def last(self, content: object, token_ids: object, finished: Finished, *, has_new_line: bool) -> Json:
        """Return the object that ends an answer; text and ids may be `SelfEncoding`."""
        return {
            "index": 0,
            "content": content,
            "tokens": token_ids,
            "stop": True,
            "model": self.model,
            "tokens_predicted": finished.completion_tokens,
            "tokens_evaluated": finished.prompt_tokens,
            "tokens_cached": finished.cached_tokens,
            "has_new_line": has_new_line,
            "truncated": False,  # no prompt is ever cut
            **_stop(finished),
            "timings": timings([finished.timings]),
        } | told(finished)

    def chosen(self, whole: Json) -> Json:
        """Return what the client wants of the last object: each path that leads somewhere is a field."""
        if not self.fields:
            return whole
        found = {path: _at(whole, path.split("/")) for path in self.fields}
        return {path: value for path, value in found.items() if value is not None}

    def logprobs_of(self, token: Token) -> Json:
        """Return the log-probability of a token, and of its alternatives."""
        assert token.logprobs is not None
        top = [self._alternative(*other) for other in token.logprobs.top]
        return self._alternative(token.token_id, token.logprobs.logprob) | {"top_logprobs": top}

    def _alternative(self, token_id: int, logprob: float) -> Json:
        text = self.tokenizer.token_text(token_id)
        return {"id": token_id, "token": text, "bytes": list(self.tokenizer.token_bytes(token_id)), "logprob": logprob}


def _stop(finished: Finished) -> Json:
    """Return why an answer ended, in llama-server's words, which have none for a cancelled one."""
    if finished.reason is not FinishReason.STOP:
        return {"stop_type": "limit", "stopping_word": ""}
    word = finished.stop_string
    return {"stop_type": "eos" if word is None else "word", "stopping_word": word or ""}


def _at(value: object, path: Sequence[str]) -> object:
    """Return what a path leads to; None where it leads nowhere."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class InfillWriter:
    """Turns a request's events into the objects of a stream; an `event_stream.EventWriter`.

    Args:
        options: how to answer.

    Attributes:
        failed: whether an error was written; then nothing follows.
    """

    content_type = CONTENT_TYPE
    headers = HEADERS

    def __init__(self, options: InfillOptions) -> None:
        self._options = options
        self._silent: list[int] = []  # tokens whose text is held back
        self._probabilities: list[Json] = []  # of these
        self._predicted = 0
        self._has_new_line = False
        self._end: Finished | None = None
        self.failed = False

    @property
    def finished(self) -> bool:
        """Whether the answer has finished; then only `closing` is left to write."""
        return self._end is not None

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the objects for `event`; none if there is nothing to show, or an error was written."""
        if self.failed or isinstance(event, PromptScored):  # no scores are wanted here
            return ()
        if isinstance(event, Failed):
            report(event.error)
            return (self._fail(Problem.of(event.error)),)
        if isinstance(event, Token):
            self._predicted += 1
            self._silent.append(event.token_id)
            if self._options.logprobs and event.logprobs is not None:
                self._probabilities.append(self._options.logprobs_of(event))
        else:
            self._end = event
        return (self._piece(event.text),) if event.text or (self.finished and self._silent) else ()

    def closing(self) -> bytes:
        """Return the last object, which tells how the answer ended and what it took."""
        assert self._end is not None
        last = self._options.last("", [], self._end, has_new_line=self._has_new_line)
        return sse(self._options.chosen(last))

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        return self._fail(INTERNAL)

    def keep_alive(self) -> bytes:
        """Return an object that adds nothing: a comment would not wake a client's timer."""
        return sse(self._options.piece("", [], self._predicted))

    def _piece(self, text: str) -> bytes:
        self._has_new_line = self._has_new_line or "\n" in text
        shown = self._options.piece(text, self._silent, self._predicted)
        if self._options.logprobs:
            shown["completion_probabilities"] = self._probabilities
        self._silent, self._probabilities = [], []
        return sse(shown)

    def _fail(self, problem: Problem) -> bytes:
        self.failed = True
        return sse(error_object(problem))


class InfillBuilder:
    """Builds the object of an answer that is sent whole; a `collect.EventCollector`.  Pure, like `InfillWriter`.

    Args:
        options: how to answer.
        page_bytes: of the pages that the bytes are held in.
    """

    def __init__(self, options: InfillOptions, page_bytes: int) -> None:
        self._options = options
        self._text = JsonStringBuilder(page_bytes)
        self._tokens = JsonArrayBuilder(page_bytes)
        self._probabilities = JsonArrayBuilder(page_bytes)
        self._has_new_line = False
        self._end: Finished | None = None

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return len(self._text) + len(self._tokens) + len(self._probabilities)

    def add(self, event: Progress) -> None:
        """Add one event."""
        if isinstance(event, PromptScored):  # no scores are wanted here
            return
        self._text.add(event.text)
        self._has_new_line = self._has_new_line or "\n" in event.text
        if not isinstance(event, Token):
            self._end = event
            return
        if self._options.tokens:
            self._tokens.add(event.token_id)
        if self._options.logprobs and event.logprobs is not None:
            self._probabilities.add(self._options.logprobs_of(event))

    def result(self) -> Json:
        """Return the object, whose long parts are `SelfEncoding`."""
        assert self._end is not None
        whole = self._options.last(self._text, self._tokens, self._end, has_new_line=self._has_new_line)
        if self._options.logprobs:
            whole["completion_probabilities"] = self._probabilities
        return self._options.chosen(whole)
