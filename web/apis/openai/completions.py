"""Completions, text that goes on where the prompt ends: the body, what it asks for, and the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired

from typing_extensions import TypedDict

from runtime.chat.chat import ChatPrompt
from runtime.chat.parts import TextPart
from web.bodies.fields import Prompt, Text, TopLogprobs
from web.bodies.json_encoding import Long
from web.bodies.prompt_tokens import check_generations, kept_tokens, split_prompts
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.asked import Asked
from web.generation.control.fields import CancelNote, cancel_note
from web.generation.grammars import grammar_of
from web.generation.infill import prompt_ids
from web.generation.openai_format.answers.formatter import AnyAnswer, AnyChunk, AnyPiece, CompletionFormatter
from web.generation.openai_format.answers.prompt_scores import PromptLogprob
from web.generation.openai_format.requests import (
    Settings,
    check_consistency,
    generations,
    openai_request,
    response_options,
    token_limit,
)
from web.generation.openai_format.schemas import HINTS, UNSUPPORTED, GenerationBody
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Token
    from runtime.chat.parts import Part
    from runtime.loading.served import ServedModel
    from runtime.text.tokenizer import Tokenizer
    from web.generation.openai_format.answers.formatter import Reason
    from web.generation.openai_format.answers.options import ResponseOptions


class CompletionBody(GenerationBody):
    """The body of `POST /v1/completions`."""

    prompt: Prompt
    logprobs: TopLogprobs | None = None
    echo: bool | None = None
    suffix: Text | None = None


COMPLETION_MAX_TOKENS = 16
"""Default of `max_tokens` at OpenAI's older endpoint.  The chat endpoint has none."""


def parse_completion(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[ResponseOptions]:
    """Parse the body of `POST /v1/completions`; a `responder.ParseFunction`, with how this server answers."""
    settings = settings or Settings()
    body = parse_model(CompletionBody, raw, UNSUPPORTED, model.context_length)
    prompts = split_prompts(body.prompt)
    check_generations(len(prompts), generations(body), max_generations)
    max_tokens = token_limit(body, default=COMPLETION_MAX_TOKENS)
    check_consistency(body, max_tokens)
    keep = kept_tokens(body.truncate_prompt_tokens, model, max_tokens)
    echo_logprobs = body.logprobs if body.echo else None
    request = openai_request(
        body,
        model,
        "cmpl",
        [prompt_ids(prompt, body.suffix, model, keep=keep) for prompt in prompts],
        ChatPrompt("", grammar=grammar_of(body)),
        max_tokens=max_tokens,
        logprobs=body.logprobs,
        continues=True,
        echo_logprobs=echo_logprobs,
        fills=bool(body.suffix),
    )
    settings.ignored.tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    echo = prompt_texts(prompts, model.tokenizer) if body.echo else []
    logprobs = body.logprobs is not None
    options = response_options(body, request, model, echo, logprobs=logprobs, echo_logprobs=echo_logprobs)
    return Asked(request, options, bool(body.stream), TextFormatter)


def prompt_texts(prompts: Sequence[str | list[int]], tokenizer: Tokenizer) -> list[str]:
    """Return the prompts as text, for `echo`."""
    return [prompt if isinstance(prompt, str) else tokenizer.decode(prompt) for prompt in prompts]


FinishReason = Literal["stop", "length"]


class TextLogprobs(TypedDict):
    """The log-probabilities of a choice's tokens: lists of one length."""

    tokens: Long[list[str]]
    token_logprobs: Long[list[float | None]]
    top_logprobs: Long[list[dict[str, float] | None]]
    text_offset: Long[list[int]]


class ChunkTextChoice(AnyPiece):
    """A piece of one of the answers."""

    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None
    prompt_token_ids: NotRequired[tuple[int, ...]]


class TextChoice(TypedDict):
    """One of the answers: `n` for each prompt."""

    index: int
    text: Long[str]
    logprobs: TextLogprobs | None
    finish_reason: FinishReason
    cede: NotRequired[CancelNote]
    token_ids: NotRequired[Long[list[int]]]
    prompt_token_ids: NotRequired[tuple[int, ...]]
    prompt_logprobs: NotRequired[Long[list[dict[str, PromptLogprob] | None]]]


class Completion(AnyAnswer):
    """A whole answer."""

    object: Literal["text_completion"]
    choices: list[TextChoice]


class CompletionChunk(AnyChunk):
    """The data of one event; the last is `[DONE]`.  An error that breaks the stream off is an error object."""

    object: Literal["text_completion"]
    choices: list[ChunkTextChoice]


class TextFormatter(CompletionFormatter[ChunkTextChoice, TextLogprobs]):
    """Shows an answer as a `text_completion`, whose chunks have the same name; see `CompletionFormatter`."""

    def _logprobs_of(self, tokens: Sequence[Token], offset: int) -> TextLogprobs:
        """Return lists that are as long as `tokens`."""
        tokenizer = self._options.tokenizer
        texts = [tokenizer.token_text(token.token_id) for token in tokens]
        return {
            "tokens": texts,
            "token_logprobs": [None if token.logprobs is None else token.logprobs.logprob for token in tokens],
            "top_logprobs": [_text_alternatives(token, tokenizer) for token in tokens],
            "text_offset": _offsets(texts, offset),
        }

    def _chunk(self, *pieces: ChunkTextChoice) -> CompletionChunk:
        options = self._options
        chunk: CompletionChunk = {
            "id": options.id,
            "object": "text_completion",
            "created": options.created,
            "model": options.model,
            "system_fingerprint": options.fingerprint,
            "choices": list(pieces),
        }
        self._tell_usage(chunk)
        return chunk

    def _first(self, index: int) -> CompletionChunk | None:
        """Return the prompt where `echo` asks for it, or no text where only token ids are to come."""
        options = self._options
        if not options.echo and not options.token_ids:
            return None
        piece = self._piece(index)
        if options.echo:
            piece["text"] = options.echo[index]
        if options.token_ids:
            piece["prompt_token_ids"] = options.prompts[index]
        return self._chunk(piece)

    def _piece(self, index: int, logprobs: TextLogprobs | None = None) -> ChunkTextChoice:
        return {"index": index, "logprobs": logprobs, "finish_reason": None, "text": ""}

    def _show(self, piece: ChunkTextChoice, part: Part) -> bool:
        if isinstance(part, TextPart):
            piece["text"] = part.text
        return True

    def _end(self, piece: ChunkTextChoice, reason: Reason) -> None:
        piece["finish_reason"] = _finish_reason(reason)

    def result(self) -> Completion:
        """Return the response object; see `Formatter`."""
        options = self._options
        return {
            "id": options.id,
            "object": "text_completion",
            "created": options.created,
            "model": options.model,
            "system_fingerprint": options.fingerprint,
            "choices": [self._choice(index, number) for number, index in enumerate(self._shown())],
            "usage": self._usage(),
            "timings": self._counter.timings(),
        }

    def _choice(self, index: int, number: int) -> TextChoice:
        """Return a generation as the choice of that number."""
        gathered, end = self.gathered[index], self.ends[index]
        logprobs: TextLogprobs = {
            "tokens": gathered.array("tokens"),
            "token_logprobs": gathered.array("token_logprobs"),
            "top_logprobs": gathered.array("top_logprobs"),
            "text_offset": gathered.array("text_offset"),
        }
        return {
            "index": number,
            "logprobs": logprobs if self._options.logprobs else None,
            "finish_reason": _finish_reason(self._reason(end)),
            **cancel_note(end),
            "text": gathered.text,
            **self._choice_ids(index),
            **self._about_prompt(index),
        }


def _finish_reason(reason: Reason) -> FinishReason:
    return "length" if reason == "length" else "stop"  # there are no calls


def _text_alternatives(token: Token, tokenizer: Tokenizer) -> dict[str, float] | None:
    """Return the most likely tokens and the chosen one, up to `logprobs` + 1 entries, as OpenAI does.

    None for the first token of an echoed prompt.
    """
    if token.logprobs is None:
        return None
    top = {tokenizer.token_text(token_id): logprob for token_id, logprob in token.logprobs.top}
    return top | {tokenizer.token_text(token.token_id): token.logprobs.logprob}


def _offsets(texts: list[str], start: int) -> list[int]:
    offsets = []
    for text in texts:
        offsets.append(start)
        start += len(text)
    return offsets
