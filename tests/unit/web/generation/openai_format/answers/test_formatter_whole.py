"""Answers that are sent whole: what they say."""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished, FinishReason, Token
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import chat, completion, fill, finished, token
from tests.rows import every_row
from tests.unit.web.generation.openai_format.answers.whole_answers import any_token
from web.bodies.json_encoding import iter_json
from web.generation.openai_format.answers.formatter import CompletionFormatter
from web.generation.openai_format.answers.usage import UsageCounter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Event
    from web.generation.asked import Asked
    from web.generation.openai_format.answers.format import Json, ResponseOptions


PAGE = 1000


def in_one_piece(parsed: Asked[ResponseOptions], events: Sequence[Event]) -> Json:
    """The response object as it was made before it came in pieces."""
    options, format, tally = parsed.options, parsed.options.format, UsageCounter(parsed.options)
    shown = []
    for index in range(options.choices):
        mine = [event for event in events if event.index == index and not isinstance(event, Failed)]
        tokens = [event for event in mine if isinstance(event, Token)]
        (end,) = [event for event in mine if isinstance(event, Finished)]
        tally.add(end)
        text = (options.echo[index] if options.echo else "") + "".join(
            event.text for event in mine if isinstance(event, Token | Finished)
        )
        choice: Json = {"index": index, "logprobs": None, "finish_reason": end.reason} | format.message(text, None, [])
        if options.logprobs:
            choice["logprobs"] = format.logprobs(tokens, options.tokenizer, 0)
        if options.token_ids:
            choice["token_ids"] = [token.token_id for token in tokens]
            choice |= format.about_prompt({"prompt_token_ids": options.prompts[index]})[1]
        shown.append(choice)
    answer = options.envelope(format.full) | {"choices": shown}
    if options.token_ids:
        answer |= format.about_prompt({"prompt_token_ids": options.prompts[0]})[0]
    return answer | {"usage": tally.usage(), "timings": tally.timings()}


def said(draw: random.Random, choices: int, alternatives: int | None) -> list[Event]:
    """The events of several choices, each in its order, with tokens of all kinds."""
    told: list[list[Event]] = []
    for index in range(choices):
        count = draw.randrange(6)
        told.append([any_token(draw, index, alternatives) for _ in range(count)])
        told[-1].append(finished(index, FinishReason.LENGTH, text=draw.choice(["", "END"]), tokens=count))
    turns = draw.sample([i for i, events in enumerate(told) for _ in events], sum(map(len, told)))
    return [told[i].pop(0) for i in turns]


CHATS = [
    chat(n=n, return_token_ids=ids, logprobs=top is not None, top_logprobs=top)
    for n, ids, top in itertools.product([1, 3], [False, True], [None, 0, 3])
]
TEXTS = [
    completion(prompt=prompt, n=n, return_token_ids=ids, logprobs=top, echo=echo)
    for prompt, n, ids, (top, echo) in itertools.product(
        ["hi", ["a", "bé"]], [1, 3], [False, True], [(None, False), (None, True), (0, False), (3, False)]
    )
]


@every_row("parsed", [*CHATS, *TEXTS])
def test_a_whole_answer_says_what_it_said_in_one_piece(parsed: Asked[ResponseOptions]) -> None:
    draw = random.Random(parsed.options.choices)
    for _ in range(10):
        events = said(draw, parsed.options.choices, parsed.request.sampling.logprobs)
        answer = CompletionFormatter(parsed.options, PAGE)
        fill(answer, events)
        data = b"".join(iter_json(answer.result()))
        expected = in_one_piece(parsed, events)
        assert json.loads(data) == json.loads(json.dumps(expected))
        assert list(json.loads(data)["choices"][0]) == list(expected["choices"][0]), "and in the same order"


def test_its_length_is_that_of_what_it_holds() -> None:
    parsed = chat(logprobs=True, top_logprobs=20, return_token_ids=True, n=2)
    answer = CompletionFormatter(parsed.options, PAGE)
    fill(answer, said(random.Random(1), 2, 20))
    data = b"".join(iter_json(answer.result()))
    assert 0 <= len(data) - len(answer) < 1500, "all but the frame"


def test_the_best_of_several_generations_become_choices() -> None:
    """By the mean log-probability of a token: a long text is not worse than a short one."""
    parsed = completion(prompt=[[1], [2]], n=1, best_of=2)
    builder = parsed.formatter(1 << 14)
    said = [("ab", (-1, -1)), ("cde", (-0.5, -0.7, -0.9)), ("f", (-2,)), ("g", (-3,))]
    for index, (text, logprobs) in enumerate(said):
        for char, logprob in zip(text, logprobs, strict=True):
            builder.add(token(char, index, TokenLogprobs(logprob)))
        builder.add(finished(index, tokens=len(text)))
    answer = json.loads(b"".join(iter_json(builder.result())))
    assert [(choice["index"], choice["text"], choice["logprobs"]) for choice in answer["choices"]] == [
        (0, "cde", None),
        (1, "f", None),
    ]
    assert answer["usage"]["completion_tokens"] == 7  # those that are not shown cost as much
