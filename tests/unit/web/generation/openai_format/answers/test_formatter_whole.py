"""Answers that are sent whole: what they say."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from actors.core.generation import Event, FinishReason
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import chat, completion, fill, finished, token
from tests.rows import every_row
from tests.unit.web.generation.openai_format.answers.streams import written
from tests.unit.web.generation.openai_format.answers.whole_answers import any_token
from web.bodies.json_encoding import iter_json
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions

Json = dict[str, Any]

PAGE = 1000


def added_up(parsed: Asked[ResponseOptions], events: Sequence[Event]) -> Json:
    """The response object that the chunks of a stream add up to."""
    streamed = replace(parsed, options=replace(parsed.options, include_usage=True))
    *chunks, last, _ = written(streamed, *events)
    is_chat = last["object"] == "chat.completion.chunk"
    answer: Json = last | {"object": last["object"].removesuffix(".chunk")}
    answer |= {name: chunk[name] for chunk in chunks for name in chunk if name == "prompt_token_ids"}
    return answer | {"choices": [_choice(parsed, index, chunks, is_chat) for index in range(parsed.options.choices)]}


def _choice(parsed: Asked[ResponseOptions], index: int, chunks: list[Json], is_chat: bool) -> Json:
    pieces = [piece for chunk in chunks for piece in chunk["choices"] if piece["index"] == index]
    text = "".join(piece["delta"].get("content", "") if is_chat else piece["text"] for piece in pieces)
    choice: Json = {"index": index, "logprobs": None, "finish_reason": pieces[-1]["finish_reason"]}
    choice |= {"message": {"role": "assistant", "content": text, "refusal": None}} if is_chat else {"text": text}
    if parsed.options.logprobs:
        lists = ["content"] if is_chat else ["tokens", "token_logprobs", "top_logprobs", "text_offset"]
        shown = [piece["logprobs"] for piece in pieces if piece["logprobs"]]
        choice["logprobs"] = {name: list(itertools.chain(*(each[name] for each in shown))) for name in lists}
        choice["logprobs"] |= {"refusal": None} if is_chat else {}
    if parsed.options.token_ids:
        choice["token_ids"] = list(itertools.chain(*(piece.get("token_ids", []) for piece in pieces)))
    return choice | {name: piece[name] for piece in pieces for name in piece if name == "prompt_token_ids"}


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
def test_a_whole_answer_says_what_its_stream_says(parsed: Asked[ResponseOptions]) -> None:
    draw = random.Random(parsed.options.choices)
    for _ in range(10):
        events = said(draw, parsed.options.choices, parsed.request.sampling.logprobs)
        answer = parsed.formatter(PAGE)
        fill(answer, events)
        data = b"".join(iter_json(answer.result()))
        expected = added_up(parsed, events)
        assert json.loads(data) == expected
        assert list(json.loads(data)["choices"][0]) == list(expected["choices"][0]), "and in the same order"


def test_its_length_is_that_of_what_it_holds() -> None:
    parsed = chat(logprobs=True, top_logprobs=20, return_token_ids=True, n=2)
    answer = parsed.formatter(PAGE)
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
