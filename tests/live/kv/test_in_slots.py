"""KV in the slots of a real server: turns, concurrent clients and retries compute what is new."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.http_client import Http1, completion, prompt
from tests.live.kv.servers import CHUNK, Starter, answer_of, ask, cached, in_blocks, plain, tokens
from tests.live.server import CHAT, COMPLETIONS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]


SYSTEM = "You write small functions in plain Python. " * 16
QUESTIONS = ["Read the lines of a file.", "Now skip the empty ones.", "And count the words.", "Add a docstring."]


@pytest.fixture(scope="module")
def four(shared: Starter) -> Server:
    """Four slots, and memory."""
    return shared("--slots", "4", "--kv-ram", "64MiB")


def chat(messages: list[Json], max_tokens: int = 12) -> Json:
    body = completion([], max_tokens, stream=False)
    del body["prompt"]
    return body | {"messages": messages}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def prompt_ids(answer: Json, path: str) -> list[int]:
    """Chat says them of the answer, completions of each choice."""
    ids: list[int] = (answer if path == CHAT else answer["choices"][0])["prompt_token_ids"]
    return ids


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences share from their starts."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def converse(server: Server, expected: Expected, between: Callable[[int], None]) -> list[tuple[int, int]]:
    """A chat of a few turns.  For each turn after the first, the tokens that were known, and those that were cached."""
    messages: list[Json] = [{"role": "system", "content": SYSTEM}]
    known: list[int] = []
    turns = []
    for turn, question in enumerate(QUESTIONS):
        messages.append(user(question))
        answer = ask(server, chat(messages), CHAT)
        said, ids = tokens(answer), prompt_ids(answer, CHAT)
        assert said == expected(chat(messages), CHAT)
        if turn:
            turns.append((min(common(known, ids), len(ids) - 1), cached(answer)))
        known = ids + said[:-1]  # the last one's KV has not been computed
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        between(turn)
    return turns


def test_a_turn_of_a_conversation_computes_only_what_is_new(four: Server, expected: Expected) -> None:
    """To the token, since the slot still has it all."""
    for known, reused in converse(four, expected, lambda _: None):
        assert reused == known > 2 * BLOCK_TOKENS


def test_a_turn_after_someone_else_had_the_slot(one_with_ram: Server, expected: Expected) -> None:
    """To within one block, from memory."""

    def someone_else(turn: int) -> None:
        ask(one_with_ram, plain(prompt(200, seed=100 + turn)))

    for known, reused in converse(one_with_ram, expected, someone_else):
        assert reused == in_blocks(known) >= 2 * BLOCK_TOKENS


def test_concurrent_clients_share_their_system_prompt(four: Server, expected: Expected) -> None:
    bodies = [chat([{"role": "system", "content": "Shared. " + SYSTEM}, user(question)]) for question in QUESTIONS]
    with ExitStack() as stack:
        clients = [stack.enter_context(Http1(four, body, CHAT)) for body in bodies]
        answers = [answer_of(client) for client in clients]
    ids = [prompt_ids(answer, CHAT) for answer in answers]
    share = min(common(ids[0], other) for other in ids[1:])
    assert share > 2 * BLOCK_TOKENS
    assert [tokens(answer) for answer in answers] == [expected(body, CHAT) for body in bodies]
    first, *others = sorted(map(cached, answers))
    assert first < share - BLOCK_TOKENS, "somebody must have computed it"
    assert all(reused > share - BLOCK_TOKENS for reused in others), others


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_retry_with_another_tail_after_a_hang_up(four: Server, expected: Expected, phase: str) -> None:
    ids = prompt(3000, seed=110)  # more than is generated before the hang-up, so that the slot is worth taking
    with Http1(four, completion(ids, 2000)) as client:
        if phase == "prefill":
            wait_for(lambda: any(s["tokens"] >= 4 * CHUNK for s in four.slots() if s["request_id"]), "some chunks")
        else:
            client.read_tokens(3)
        (request_id,) = four.requests()
    (receipt,) = four.wait_ended(request_id)
    kept = min(len(ids), receipt["cached_tokens"] + receipt["kept_tokens"])
    assert kept >= 4 * CHUNK
    same = kept - 100
    body = plain([*ids[:same], *prompt(150, seed=120)])
    answer = ask(four, body)
    assert cached(answer) == same
    assert tokens(answer) == expected(body, COMPLETIONS)
