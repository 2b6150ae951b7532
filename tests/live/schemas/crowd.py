"""Clients that ask a server for JSON of schemas, in streams and whole, and of whom some hang up."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import trio

from tests.live.schemas.cases import Case
from tests.live.server import CHAT, Json, Server
from tests.soak.clients import Http1, open_http1

CLIENTS = 4  # at a time
DATA = b"data: "
PATIENCE = 1200.0  # seconds; only what hangs takes so long
CLOSING = ('"', '",', '"}', "}", "]", "},", "],", '":', " }", " ]")
BIASES = (0.0, 3.0, 6.0)  # towards what closes a string, an array or an object: weak models do not come to an end
TEMPERATURES = (0.0, 0.8, 1.2)


@dataclass(slots=True)
class Found:
    """Results of generations."""

    ends: Counter[str] = field(default_factory=Counter)  # validated, cut, left, refused, by how it was asked
    refused: dict[str, str] = field(default_factory=dict)  # by the name of the schema: the keyword
    faults: list[str] = field(default_factory=list)
    speculated: int = 0  # of those that were asked for

    def note(self, end: str, *, stream: bool) -> None:
        """Count an end."""
        self.ends[f"{end} ({'streamed' if stream else 'whole'})"] += 1

    def count(self, end: str) -> int:
        """Return how many have ended so."""
        return sum(count for name, count in self.ends.items() if name.startswith(end))


class Crowd:
    """Four clients that ask for generations, one after another.

    Args:
        server: that they ask.
        cases: of which the generation of number i is for the i-th, and so on from the first again.
        max_tokens: of each.
        seed: of all choices.
    """

    def __init__(self, server: Server, cases: Sequence[Case], max_tokens: int, seed: int = 0) -> None:
        self.found = Found()
        self._server = server
        self._cases = cases
        self._max_tokens = max_tokens
        self._seed = seed
        self._closing = [self._token_of(text) for text in CLOSING]

    def _token_of(self, text: str) -> int | None:
        _, answer = self._server.ask("POST", "/tokenize", {"content": text})
        tokens = answer["tokens"]
        return tokens[0] if len(tokens) == 1 else None

    async def ask_for(self, numbers: Sequence[int]) -> None:
        """Ask for the generations of these numbers."""
        waiting = iter(numbers)

        async def client() -> None:
            for number in waiting:
                with trio.move_on_after(PATIENCE) as patience:
                    await self._ask(number)
                if patience.cancelled_caught:
                    self.found.faults.append(f"no end of {self._cases[number % len(self._cases)].name}")

        async with trio.open_nursery() as nursery:
            for _ in range(CLIENTS):
                nursery.start_soon(client)

    def _body(self, case: Case, dice: Random, *, stream: bool) -> Json:
        bias = dice.choice(BIASES)
        speculate = dice.random() < 0.5
        self.found.speculated += speculate
        return {
            "messages": [{"role": "user", "content": f"Write a short example of {case.name} as JSON."}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": case.schema}},
            "max_tokens": self._max_tokens,
            "temperature": dice.choice(TEMPERATURES),
            "seed": dice.randrange(2**31),
            "logit_bias": {str(token): bias for token in self._closing if token is not None and bias},
            "speculate": speculate,
            "stream": stream,
        }

    async def _ask(self, number: int) -> None:
        case = self._cases[number % len(self._cases)]
        dice = random.Random(f"{self._seed}/{number}")
        stream = dice.random() < 0.5
        body = self._body(case, dice, stream=stream)
        hang_up_after = dice.randint(1, 30) if dice.random() < 0.2 else math.inf  # deltas, or hundredths of a second
        async with open_http1(self._server.address) as exchange:
            await exchange.ask("POST", CHAT, json.dumps(body).encode())
            if stream:
                await self._read_stream(exchange, case, hang_up_after)
                return
            with trio.move_on_after(hang_up_after / 100) as impatience:
                status, _ = await exchange.head()
                answer = json.loads(await _read_all(exchange))
            if impatience.cancelled_caught:
                self.found.note("left", stream=False)
            elif status != 200:
                self._note_refusal(case, status, answer, stream=False)
            else:
                (choice,) = answer["choices"]
                self._note_output(case, choice["message"]["content"] or "", choice["finish_reason"], stream=False)

    async def _read_stream(self, exchange: Http1, case: Case, hang_up_after: float) -> None:
        status, _ = await exchange.head()
        if status != 200:
            self._note_refusal(case, status, json.loads(await _read_all(exchange)), stream=True)
            return
        text, deltas, reason, buffer = "", 0, None, b""
        while reason is None and deltas < hang_up_after and (data := await exchange.receive()):
            *events, buffer = (buffer + data).split(b"\n\n")
            for event in [json.loads(event[len(DATA) :]) for event in events if event.startswith(DATA + b"{")]:
                if "error" in event:
                    self.found.faults.append(f"{case.name}: {event['error']}, after {text!r}")
                    return
                for choice in event["choices"]:
                    text += choice["delta"].get("content") or ""
                    reason = choice["finish_reason"] or reason
                    deltas += 1
        if reason is None and deltas >= hang_up_after:
            self.found.note("left", stream=True)
            self._check_beginning(case, text)
        else:
            self._note_output(case, text, reason, stream=True)

    def _note_refusal(self, case: Case, status: int, answer: Any, *, stream: bool) -> None:  # noqa: ANN401  of JSON
        message = answer.get("error", {}).get("message", "")
        keyword = case.keyword_in(message)
        if status != 400 or keyword is None:
            self.found.faults.append(f"{case.name}: {status} {answer}")
            return
        self.found.note("refused", stream=stream)
        if self.found.refused.setdefault(case.name, keyword) != keyword:
            self.found.faults.append(f"{case.name}: refused for {keyword}, and for {self.found.refused[case.name]}")

    def _note_output(self, case: Case, text: str, reason: str | None, *, stream: bool) -> None:
        if reason == "stop":
            fault = case.fault_of(text)
            if fault is not None:
                self.found.faults.append(f"{case.name}: {fault}: {text!r}")
            self.found.note("validated", stream=stream)
        elif reason == "length":
            self.found.note("cut", stream=stream)
            self._check_beginning(case, text)
        else:
            self.found.faults.append(f"{case.name}: ended with {reason!r}: {text!r}")

    def _check_beginning(self, case: Case, text: str) -> None:
        if not case.may_go_on(text):
            self.found.faults.append(f"{case.name}: not the beginning of an output: {text!r}")


async def _read_all(exchange: Http1) -> bytes:
    content = b""
    while data := await exchange.receive():
        content += data
    return content
