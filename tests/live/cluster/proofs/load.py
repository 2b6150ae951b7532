"""Clients that ask all the time, and compare what they get with what is answered when nothing happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import trio

from tests.live.cluster.clusters import MODEL, chat
from tests.live.cluster.proofs.asking import Answer, ask
from tests.live.server import CHAT, COMPLETIONS, Json
from tests.soak.clients import Address

GRAMMAR = {"type": "array", "items": {"type": "integer"}, "minItems": 60, "maxItems": 60}


@dataclass(frozen=True, slots=True)
class Kind:
    """A request that is asked again and again.

    Attributes:
        name: for people.
        body: as JSON.
        path: where.
        moves: whether it can go on at another worker.
    """

    name: str
    body: Json
    path: str = CHAT
    moves: bool = True


def kinds(tokens: int) -> tuple[Kind, ...]:
    """Of each kind one, of so many tokens; the same at each call."""
    drawn = {"temperature": 1.0, "seed": 7}
    schema = {"type": "json_schema", "json_schema": {"name": "numbers", "schema": GRAMMAR}}
    completion = {"model": MODEL, "prompt": "def walk(tree):", "max_tokens": tokens, "ignore_eos": True}
    return (
        Kind("greedy, streamed", streamed(chat("class Tree:", tokens))),
        Kind("seeded, streamed", streamed(chat("import os", tokens, **drawn))),
        Kind("greedy, whole", chat("def read(path):", tokens)),
        Kind("seeded completion", streamed(completion | {"temperature": 0.8, "seed": 3}), COMPLETIONS),
        Kind("two choices", streamed(chat("class Node:", tokens // 2, n=2, **drawn)), moves=False),
        Kind("grammar", streamed(chat("Numbers.", tokens, response_format=schema, seed=9)), moves=False),
    )


def streamed(body: Json) -> Json:
    """The same as a stream that says what it took."""
    return body | {"stream": True, "stream_options": {"include_usage": True}}


@dataclass(slots=True)
class Outcome:
    """Result of the load.

    Attributes:
        answers: all that ended, with the kind of each.
        exact: how many of each kind were those of the solo run.
        refused: those of a kind that does not move whose client was told to send them again.
        failed: others that ended in an error.
        wrong: those that ended well, with what is not said when nothing happens.
    """

    answers: list[tuple[Kind, Answer]] = field(default_factory=list)
    exact: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[Kind, Answer]] = field(default_factory=list)
    failed: list[tuple[Kind, Answer]] = field(default_factory=list)
    wrong: list[tuple[Kind, Answer]] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """Return what must not be."""
        failed = [f"{kind.name} {answer.id}: {answer.status}, {answer.error}" for kind, answer in self.failed]
        return failed + [f"{kind.name} {answer.id} says {answer.said}" for kind, answer in self.wrong]

    def add(self, other: Outcome) -> None:
        """Take in what came of more."""
        self.exact += other.exact
        for name in ("answers", "refused", "failed", "wrong"):
            getattr(self, name).extend(getattr(other, name))

    def lines(self) -> list[str]:
        """Say it in a few lines."""
        refused = Counter(kind.name for kind, _ in self.refused)
        return [
            *(f"{self.exact[name]:7} exact, {refused[name]} to be sent again: {name}" for name in self.exact | refused),
            *self.faults[:20],
        ]


class Load:
    """Clients that ask one kind after the other.

    Args:
        address: the front door's.
        chosen: the kinds.
        solo: what each says when nothing happens, by name.
    """

    def __init__(self, address: Address, chosen: Sequence[Kind], solo: Mapping[str, Any]) -> None:
        self._address = address
        self._kinds = chosen
        self._solo = solo
        self._next = count()
        self.outcome = Outcome()

    @classmethod
    async def of(cls, address: Address, chosen: Sequence[Kind]) -> Load:
        """Ask each kind alone first."""
        solo = {}
        for kind in chosen:
            answer = await ask(address, kind.body, kind.path)
            assert answer.error is None, (kind, answer.error)
            solo[kind.name] = answer.said
        return cls(address, chosen, solo)

    async def once(self, address: Address) -> None:
        """Ask each kind once, at a front door that may be another."""
        for kind in self._kinds:
            self._judge(kind, await ask(address, kind.body, kind.path))

    @asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[None]:
        """While the scope lasts, so many clients ask; at its end each has the rest of its answer."""
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(clients):
                nursery.start_soon(self._keep_asking, over)
            try:
                yield
            finally:
                over.set()

    async def _keep_asking(self, over: trio.Event) -> None:
        while not over.is_set():
            kind = self._kinds[next(self._next) % len(self._kinds)]
            self._judge(kind, await ask(self._address, kind.body, kind.path))

    def _judge(self, kind: Kind, answer: Answer) -> None:
        outcome = self.outcome
        outcome.answers.append((kind, answer))
        if answer.error is None and answer.said == self._solo[kind.name]:
            outcome.exact[kind.name] += 1
        elif answer.error is None:
            outcome.wrong.append((kind, answer))
        elif kind.moves or not says_to_send_again(answer):
            outcome.failed.append((kind, answer))
        else:
            outcome.refused.append((kind, answer))


SEND_AGAIN = {("503", "service_unavailable"), ("504", "timeout_error"), ("504", "gateway_timeout")}
"""Codes and types of errors that invite to do so: a worker that died or stops, and one that says nothing any more."""


def says_to_send_again(answer: Answer) -> bool:
    """Return whether an error is of a kind that invites to do so."""
    error = answer.error or {}
    return (str(error.get("code")), str(error.get("type")).lower().replace(" ", "_")) in SEND_AGAIN
