"""The attacks: requests that try to harm other clients.

An attack ends by itself, or when its scope is cancelled.  Either way it has counted how the server answered: statuses,
`broken off`, and `refused` for a connection that was not accepted.  Sizes are those at a scale of 1, at which no body
is longer than 16 MiB.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import httpx
import trio

from bench.client.attacks.sending import (
    CHAT,
    COMPLETIONS,
    MIB,
    AttackTarget,
    concurrently,
    message,
    one_by_one,
    post,
    raw,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.client.attacks.sending import Action

MAX_BODY = int(15.5 * MIB)
"""Bytes of the largest body."""


def ordinary(target: AttackTarget) -> Action:
    """No attack, to compare with: ordinary requests with long prompts and several choices, one after the other."""
    prompts = [[300 + (number * 7 + place) % 2000 for place in range(target.tokens // 2)] for number in range(3)]
    return one_by_one(
        post(target, target.completion_body(prompt=prompt, n=2, max_tokens=32, stream=True)) for prompt in prompts
    )


def long_name(target: AttackTarget) -> Action:
    """A name of 2 MiB, in each of many chunks, and a reader that pauses."""
    content = target.completion_body(model="m" * target.size(2 * MIB), stream=True, max_tokens=min(target.tokens, 2000))
    return raw(target, message(target, content), pause=target.pause, reads=True)


def stop_string(target: AttackTarget) -> Action:
    """A stop string of 2 MiB, and sixteen choices."""
    return post(target, target.completion_body(stop="s" * target.size(2 * MIB), n=16))


def stop_strings(target: AttackTarget) -> Action:
    """Very many stop strings."""
    return post(target, target.completion_body(stop=["st"] * target.size(MAX_BODY / 6)))


def text_of_words(target: AttackTarget) -> Action:
    """Texts of 1 and 6 MiB."""
    sizes = [target.size(MIB), target.size(6 * MIB)]
    return one_by_one(
        post(target, target.completion_body(prompt="import os, sys " * (size // 15 + 1))) for size in sizes
    )


def one_word(target: AttackTarget) -> Action:
    """One word of 15.5 MiB."""
    return post(target, target.completion_body(prompt="a" * target.size(MAX_BODY)))


def one_message(target: AttackTarget) -> Action:
    """One message of 6 MiB."""
    return post(
        target, target.chat_body(messages=[{"role": "user", "content": "word " * target.size(6 * MIB / 5)}]), CHAT
    )


def many_messages(target: AttackTarget) -> Action:
    """Hundreds of thousands of messages."""
    turn = {"role": "user", "content": "a"}
    return post(target, target.chat_body(messages=[turn] * target.size(MAX_BODY / 34)), CHAT)


def many_parts(target: AttackTarget) -> Action:
    """A message in hundreds of thousands of parts."""
    parts = [{"type": "text", "text": "a"}] * target.size(MAX_BODY / 32)
    return post(target, target.chat_body(messages=[{"role": "user", "content": parts}]), CHAT)


def many_prompts(target: AttackTarget) -> Action:
    """Millions of prompts of one letter."""
    return post(target, b'{"max_tokens":1,"prompt":[' + b",".join([b'"a"'] * target.size(MAX_BODY / 4)) + b"]}")


def many_ids(target: AttackTarget) -> Action:
    """Millions of token ids."""
    return post(target, b'{"max_tokens":1,"prompt":[' + b",".join([b"300"] * target.size(MAX_BODY / 4)) + b"]}")


def large_answer(target: AttackTarget) -> Action:
    """Four choices with 20 log-probabilities for each token, as one response."""
    return post(target, target.completion_body(n=4, max_tokens=target.size(target.tokens), logprobs=20))


def paused_reader(target: AttackTarget) -> Action:
    """Four choices with 20 log-probabilities for each token, as a stream that is not read for a while."""
    content = target.completion_body(n=4, max_tokens=target.size(target.tokens), logprobs=20, stream=True)
    return raw(target, message(target, content), pause=2 * target.pause, reads=True)


def unread_answers(target: AttackTarget) -> Action:
    """Sixteen streams with log-probabilities, which nobody ever reads."""
    content = target.completion_body(n=4, max_tokens=target.size(target.tokens / 4), logprobs=20, stream=True)
    return concurrently(raw(target, message(target, content), pause=4 * target.pause, reads=False) for _ in range(16))


def at_the_bounds(target: AttackTarget) -> Action:
    """Every field as long as a server may reasonably accept it, and sixteen choices, as one response."""
    stop = [chr(97 + number) * 1000 + "b" for number in range(16)]
    bias = {str(number): 0.5 for number in range(300, 1300)}
    fields = {"model": "m" * 250, "user": "u" * 250, "stop": stop, "logit_bias": bias, "logprobs": 20}
    prompt = [300 + place % 2000 for place in range(target.tokens // 2)]
    return post(
        target, target.completion_body(prompt=prompt, n=16, max_tokens=target.size(target.tokens / 8), **fields)
    )


def many_bodies(target: AttackTarget) -> Action:
    """60 connections with bodies of 15.5 MiB, of which the last byte never comes."""
    body = b'{"prompt":"' + b"a" * target.size(MAX_BODY)
    unfinished = message(target, body, length=len(body) + 2)
    return concurrently(raw(target, unfinished, pause=target.pause, reads=False) for _ in range(60))


def many_connections(target: AttackTarget) -> Action:
    """400 connections that send the beginning of a request."""
    return concurrently(raw(target, b"POST /v1/comp", pause=target.pause, reads=False) for _ in range(target.size(400)))


def many_streams(target: AttackTarget) -> Action:
    """1100 requests on one HTTP/2 connection, eight at a time."""
    content, waiting = target.completion_body(max_tokens=1), iter(range(target.size(1100)))

    async def send_some(http: httpx.AsyncClient) -> None:
        for _ in waiting:
            try:
                answer = await http.post(COMPLETIONS, content=content, headers={"content-type": "application/json"})
                target.answers[str(answer.status_code)] += 1
            except httpx.HTTPError:
                target.answers["broken off"] += 1

    async def act() -> None:
        if find_spec("h2") is None:
            target.answers["not tried: httpx has no HTTP/2 here"] += 1
            return
        url, limits = target.client.url, httpx.Limits(max_connections=1)
        http = httpx.AsyncClient(http1=False, http2=True, base_url=url, limits=limits, timeout=60, trust_env=False)
        async with http, trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(send_some, http)

    return act


def deep_nesting(target: AttackTarget) -> Action:
    """Arrays nested millions deep, in a field of the schema and in an unknown one."""
    depth = target.size(MAX_BODY / 2.1)
    bodies = [b'{"%s":' % name + b"[" * depth + b"]" * depth + b',"max_tokens":1}' for name in (b"prompt", b"aside")]
    return one_by_one(post(target, body) for body in bodies)


def unknown_fields(target: AttackTarget) -> Action:
    """A million fields that no API has."""
    return post(target, target.completion_body(**{f"f{number}": 0 for number in range(target.size(MAX_BODY / 16))}))


def biases(target: AttackTarget) -> Action:
    """A million entries of `logit_bias`."""
    return post(
        target, target.completion_body(logit_bias={str(number): 1 for number in range(target.size(MAX_BODY / 16))})
    )


def template_variables(target: AttackTarget) -> Action:
    """Template variables of 15 MiB."""
    return post(
        target,
        target.chat_body(chat_template_kwargs={f"v{n}": "x" * 90 for n in range(target.size(MAX_BODY / 105))}),
        CHAT,
    )


def other_site(target: AttackTarget) -> Action:
    """A request that a web page of another site can send, and one with a foreign name for this machine."""
    content = target.completion_body(max_tokens=1)
    heads: list[Mapping[str, str]] = [
        {"content-type": "text/plain", "origin": "http://elsewhere.example"},
        {"host": "elsewhere.example", "content-type": "application/json"},
    ]
    return one_by_one(post(target, content, COMPLETIONS, headers) for headers in heads)


ATTACKS: dict[str, Callable[[AttackTarget], Action]] = {
    "a long name": long_name,
    "a long stop string": stop_string,
    "many stop strings": stop_strings,
    "long texts": text_of_words,
    "one long word": one_word,
    "one long message": one_message,
    "many messages": many_messages,
    "many parts": many_parts,
    "many prompts": many_prompts,
    "many token ids": many_ids,
    "a large answer": large_answer,
    "a reader that pauses": paused_reader,
    "unread answers": unread_answers,
    "all at the bounds": at_the_bounds,
    "60 large bodies": many_bodies,
    "400 connections": many_connections,
    "1100 HTTP/2 requests": many_streams,
    "deep nesting": deep_nesting,
    "unknown fields": unknown_fields,
    "biases": biases,
    "template variables": template_variables,
    "another site": other_site,
}
