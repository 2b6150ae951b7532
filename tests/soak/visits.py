"""Visits of a client: what it can mean to do with one request, and does until it loses patience."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import trio

from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, Gone, Json, Server
from tests.soak.clients import Address, Events, Exchange, fetch
from tests.soak.record import Record

SOLO_TOKENS = 48
STALL_TIMEOUT = 4.0  # seconds, as the server is told; a busy machine must not make a stalled reader of a decent one
VOCABULARY = range(300, 3000)  # plain tokens


@dataclass(frozen=True, slots=True)
class Solo:
    """A prompt, and the greedy output that it has alone."""

    prompt: list[int]
    tokens: list[int]

    def difference(self, tokens: list[int]) -> str:
        """Return where an output goes another way, in words."""
        places = [place for place, pair in enumerate(zip(tokens, self.tokens, strict=False)) if pair[0] != pair[1]]
        return f"after {len(self.prompt)} tokens, another output from {places[:1]} on: {tokens} and not {self.tokens}"


def run_alone(server: Server) -> list[Solo]:
    """Some outputs, each decoded on an idle server without drafts and without KV of before."""
    solos = []
    for seed, length in enumerate([20, 70, 150, 300, 600]):
        ids = prompt(length, seed)
        with Http1(server, completion(ids, SOLO_TOKENS, cache_prompt=False, speculate=False)) as alone:
            solos.append(Solo(ids, alone.read_all()))
    return solos


def fill(server: Server, slots: int) -> None:
    """Use all of the slots' KV and some of the tiers', which takes memory for good the first time."""
    prompts = [prompt(4000, seed) for seed in range(10, 10 + slots)]
    with Http1(server, completion(prompts, 1)) as full:
        full.read_all()


@dataclass(frozen=True, slots=True)
class Scene:
    """State that all clients share."""

    address: Address
    solos: list[Solo]
    record: Record = field(default_factory=Record)

    def any_prompt(self, dice: Random) -> list[int]:
        """The start of one that others know as well, with an end of its own; some are long."""
        known = dice.choice(self.solos).prompt
        length = dice.choice([8, 30, 100, 1500]) if dice.random() < 0.9 else 3500 - len(known)
        return [*known[: dice.randrange(len(known))], *dice.choices(VOCABULARY, k=length)]


class Visit:
    """One request.

    Args:
        scene: takes note of what comes of it.
        exchange: fresh.
        dice: decides what the client leaves open.
        tail: where the client's last request went; None for a stranger.
    """

    def __init__(self, scene: Scene, exchange: Exchange, dice: Random, tail: list[int] | None = None) -> None:
        self._scene = scene
        self._record = scene.record
        self._exchange = exchange
        self._dice = dice
        self._prompt = tail if tail and dice.random() < 0.5 else scene.any_prompt(dice)
        self._request_id = ""  # not known yet
        self.events = Events(exchange)

    @property
    def tail(self) -> list[int]:
        """A prompt that shares with this one some of what was read, and then goes another way."""
        whole = [*self._prompt, *self.events.tokens][:3000]
        return [*whole[: self._dice.randint(1, len(whole))], *self._dice.choices(VOCABULARY, k=8)]

    def may_have_stalled(self) -> None:
        """Expect that the server gave the request up, since a neighbour on its connection did not read."""
        self._allow("stalled_reader")

    def leave(self) -> str:
        """The client loses patience, or its connection."""
        self._allow("client_disconnect")
        return "left"

    # --- what a client can mean to do; each returns how it ended ------------------------------------------------------

    async def listen(self) -> str:
        """Read a whole answer, which must be that of a run alone."""
        solo = self._dice.choice(self._scene.solos)
        self._prompt = solo.prompt
        await self._ask(SOLO_TOKENS, temperature=0)
        await self.events.read()
        assert self.events.tokens == solo.tokens, solo.difference(self.events.tokens)
        self._record.compared += len(solo.tokens)
        return self._end_of_stream()

    async def break_off(self) -> str:
        """In the head or the body of the request."""
        content = json.dumps(completion(self._prompt, 8)).encode()
        await self._exchange.ask("POST", COMPLETIONS, content, part=self._dice.random() * 0.99)
        await trio.sleep(self._dice.uniform(0, 0.1))
        return self.leave()

    async def leave_unheard(self) -> str:
        """Ask, and leave before anything has come."""
        await self._send(completion(self._prompt, 100))
        await trio.sleep(self._dice.expovariate(20))
        return self.leave()

    async def leave_early(self) -> str:
        """In the queue, or while the prompt is read."""
        await self._ask(100)
        await trio.sleep(self._dice.expovariate(5))
        return self.leave()

    async def leave_midway(self) -> str:
        """Leave in the middle of the answer."""
        await self._ask(100)
        whole = not await self.events.read(self._dice.randint(1, 60))
        return self._end_of_stream() if whole else self.leave()

    async def read_slowly(self) -> str:
        """Read with pauses."""
        await self._ask(40)
        whole = not await self.events.read(self._dice.randint(20, 60), pause=0.03)
        return self._end_of_stream() if whole else self.leave()

    async def stall(self) -> str:
        """Stop reading, in a response that no buffer holds, until the server has had enough of it."""
        await self._ask(120, logprobs=20)
        await self.events.read(1)
        self._allow("stalled_reader")
        await trio.sleep(self._dice.uniform(1, 3) * STALL_TIMEOUT)
        return self.leave()

    async def delete(self) -> str:
        """Have an operator cancel the request."""
        await self._ask(400)
        await self.events.read(self._dice.randint(1, 20))
        self._allow("operator")
        gone: ExceptionGroup[Gone] | None = None
        try:
            async with trio.open_nursery() as nursery:  # it may wait for its turn; who does not read then has stalled
                nursery.start_soon(self._delete)
                await self.events.read()
        except* Gone as cut:
            gone = cut
        if gone is not None:
            raise Gone(*gone.exceptions)
        return "deleted" if self.events.cancelled == "operator" else self._end_of_stream()

    async def _delete(self) -> None:
        status, _ = await fetch(self._scene.address, f"/v1/requests/{self._request_id}", "DELETE")
        assert status in (200, 404), status

    async def ask_for_several(self) -> str:
        """Ask for several answers at once."""
        prompts = [[*self._prompt, token] for token in self._dice.choices(VOCABULARY, k=3)]
        await self._send(completion(prompts, 30))
        await self._head()
        await self.events.read(self._dice.randint(1, 60))
        return self.leave()

    async def leave_while_reading(self) -> str:
        """At the first token of a short prompt, when the long ones beside it are still being read."""
        long = [self._dice.choices(VOCABULARY, k=3000) for _ in range(3)]
        await self._send(completion([long[0][:9], *long], 30))
        await self._head()
        await self.events.read(1)
        return self.leave()

    async def wait_for_an_answer(self) -> str:
        """One that is sent whole."""
        await self._send(completion(self._prompt, 30, stream=False))
        await self._head()
        while await self._exchange.receive():
            pass
        self._record.reasons[self._request_id] = set()
        return "whole"

    # --- parts --------------------------------------------------------------------------------------------------------

    async def _ask(self, max_tokens: int, **fields: Any) -> None:  # noqa: ANN401  the body's
        fields = {"temperature": self._dice.choice([0, 0, 1])} | fields
        await self._send(completion(self._prompt, max_tokens, **fields))
        await self._head()

    async def _send(self, body: Json) -> None:
        await self._exchange.ask("POST", COMPLETIONS, json.dumps(body).encode())

    async def _head(self) -> None:
        status, headers = await self._exchange.head()
        assert status == 200, status
        self._request_id = headers["x-request-id"]

    def _allow(self, reason: str) -> None:
        """Note that a receipt of this request may give this reason."""
        self._record.reasons.setdefault(self._request_id, set()).add(reason)

    def _end_of_stream(self) -> str:
        """After a response that was read to its end, and so was not cancelled."""
        assert (self.events.finish_reason, self.events.errors) == ("length", []), self._request_id
        timings = self.events.timings
        self._record.reasons[self._request_id] = set()
        not_kept = timings.get("draft_n", 0) - timings.get("draft_n_accepted", 0)
        self._record.finished_rows += timings["prompt_n"] + timings["predicted_n"] - 1 + not_kept
        return "whole"


Behaviour: TypeAlias = Callable[[Visit], Awaitable[str]]

BEHAVIOURS: dict[Behaviour, int] = {  # and how often each is met
    Visit.break_off: 2,
    Visit.leave_unheard: 3,
    Visit.leave_early: 4,
    Visit.leave_midway: 6,
    Visit.read_slowly: 2,
    Visit.stall: 1,
    Visit.delete: 2,
    Visit.ask_for_several: 2,
    Visit.leave_while_reading: 1,
    Visit.wait_for_an_answer: 2,
}


def choose(dice: Random) -> Behaviour:
    """Any of them."""
    return dice.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))[0]
