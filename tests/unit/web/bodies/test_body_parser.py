"""Bodies are understood where nobody's tokens wait for it, and what is too much is refused before any work."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import trio

from runtime.chat.chat import Chat, ChatPrompt
from runtime.chat.conversation import Conversation
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from runtime.loading.served import ServedModel
from tests.fakes.byte_tokenizer import ByteTokenizer
from tests.fakes.engine import CONTEXT, FakeEngine, as_engine, completion, model
from web.apis.openai.chat import parse_chat
from web.apis.openai.completions import parse_completion
from web.bodies.body_parser import INLINE_BODY, LONG_BODY, MAX_ORDINARY, BodyParser
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions

JOB = completion()

PATIENCE = 600  # seconds, which only a failing test uses up


class Parsers:
    """Stands in for a parser: each call waits until it is let go, in whatever thread it runs."""

    def __init__(self) -> None:
        self.running: list[int] = []  # the lengths of the bodies in work
        self.threads: set[int] = set()
        self._changed = threading.Condition()
        self._go: set[int] = set()

    def __call__(self, raw: bytes, model: ServedModel, most: int) -> Asked[ResponseOptions]:
        """Parse a body, which takes until it is let go."""
        with self._changed:
            self.threads.add(threading.get_ident())
            self.running.append(len(raw))
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(raw) in self._go, timeout=PATIENCE)
            self.running.remove(len(raw))
        return JOB

    def let_go(self, *lengths: int) -> None:
        """Let the bodies of these lengths be parsed."""
        with self._changed:
            self._go.update(lengths)
            self._changed.notify_all()

    async def until_running(self, *lengths: int) -> None:
        """Wait until the bodies of these lengths are being parsed, and no others."""

        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: sorted(self.running) == sorted(lengths), timeout=PATIENCE)

        assert await trio.to_thread.run_sync(wait)


async def test_long_bodies_are_read_one_at_a_time_and_ordinary_ones_do_not_wait_for_them() -> None:
    parser, parsers = BodyParser(as_engine(FakeEngine())), Parsers()
    long = [LONG_BODY, LONG_BODY + 1]
    ordinary = [INLINE_BODY + number for number in range(MAX_ORDINARY + 1)]
    async with trio.open_nursery() as nursery:
        for length in (*long, *ordinary):
            nursery.start_soon(parser.parse, parsers, b"x" * length)
            await trio.testing.wait_all_tasks_blocked()  # so they wait in this order
        try:
            await parsers.until_running(long[0], *ordinary[:MAX_ORDINARY])
            parsers.let_go(ordinary[0])
            await parsers.until_running(long[0], *ordinary[1:])
            parsers.let_go(long[0])
            await parsers.until_running(long[1], *ordinary[1:])
        finally:
            parsers.let_go(*long, *ordinary)
    assert threading.get_ident() not in parsers.threads


async def test_a_short_body_needs_no_thread() -> None:
    parser, parsers = BodyParser(as_engine(FakeEngine())), Parsers()
    parsers.let_go(INLINE_BODY - 1)
    assert await parser.parse(parsers, b"x" * (INLINE_BODY - 1)) is JOB
    assert parsers.threads == {threading.get_ident()}


# --- refused before the work --------------------------------------------------------------------------------------


class Idle(ByteTokenizer):
    """A tokenizer that has nothing to do."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Fail: nothing was to be encoded."""
        raise AssertionError("it was asked to encode")

    def decode(self, ids: object, *, skip_special_tokens: bool = True) -> str:
        """Fail: nothing was to be decoded."""
        raise AssertionError("it was asked to decode")


class IdleChat(Chat):
    """A chat that has nothing to do."""

    def prompt(self, conversation: Conversation) -> ChatPrompt:
        """Fail: nothing was to be rendered."""
        raise AssertionError("it was asked to render")


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"prompt": ["a"] * 69}, "prompt", "69 prompts are more than the 68"),
        ({"prompt": [[1]] * 69, "echo": True}, "prompt", "69 prompts are more than the 68"),
        ({"prompt": ["a"] * 9, "n": 8}, "prompt", "8 choices for each of 9 prompts are more than the 68"),
    ],
)
def test_the_number_of_prompts_is_known_before_any_is_tokenised(fields: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        parse_completion(json.dumps(fields).encode(), model(tokenizer=Idle()), 68)
    assert caught.value.param == param


def test_more_choices_than_the_server_can_hold_are_refused_before_a_conversation_is_rendered() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "n": 5}
    with pytest.raises(RequestError, match="more than the 4") as caught:
        parse_chat(json.dumps(body).encode(), model(tokenizer=Idle(), chat=IdleChat(ChatTemplate(""))), 4)
    assert caught.value.param == "n"


async def test_the_engine_says_how_many_there_can_be() -> None:
    engine = FakeEngine()
    engine.most_generations = 3
    with pytest.raises(RequestError, match="more than the 3"):
        await BodyParser(as_engine(engine)).parse(parse_completion, json.dumps({"prompt": [[1]] * 4}).encode())


def test_a_conversation_that_cannot_fit_is_refused_before_it_is_rendered() -> None:
    messages = [
        {"role": "user", "content": "x" * 40},
        {"role": "user", "content": [{"type": "text", "text": "x" * 40}]},
    ]
    with pytest.raises(RequestError, match=f"{CONTEXT} tokens.* more than {CONTEXT - 1} tokens") as caught:
        parse_chat(
            json.dumps({"messages": messages}).encode(),
            model(tokenizer=Idle(), chat=IdleChat(ChatTemplate(""))),
        )
    assert (caught.value.param, caught.value.code) == ("messages", "context_length_exceeded")


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenised() -> None:
    for prompt in ("x" * CONTEXT, ["x" * CONTEXT]):
        with pytest.raises(RequestError, match=f"{CONTEXT} tokens.* more than {CONTEXT - 1} tokens") as caught:
            parse_completion(json.dumps({"prompt": prompt}).encode(), model(tokenizer=Idle()))
        assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")


def test_a_body_of_too_many_values_is_refused_before_it_is_parsed() -> None:
    unfinished = b'{"prompt": [' + b"[1]," * 100_000
    with pytest.raises(RequestError, match="more than 6144 arrays"):
        parse_completion(unfinished, model())
