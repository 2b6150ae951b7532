"""Clients: what they ask, and what happened to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from actors.core.generation import Event, Failed, Finished, GenerationRequest, PromptScored, Token
from actors.core.receipts import Receipt
from runtime.errors import CedeError
from runtime.sampling.params import SamplingParams
from runtime.step.prompt_rows.wanted import TokenScore
from tests.sim.device import VOCABULARY

GREEDY = SamplingParams(temperature=0.0, seed=0)


def ask(request_id: str, *prompts: Sequence[int], max_tokens: int | None = 4, **more: Any) -> GenerationRequest:  # noqa: ANN401
    """A greedy request with one generation for each prompt."""
    sampling = more.pop("sampling", GREEDY)
    return GenerationRequest(request_id, tuple(map(tuple, prompts)), sampling, max_tokens=max_tokens, **more)


def prompt(length: int, *, start: int = 3) -> list[int]:
    """Tokens that no other `start` less than 40 away continues."""
    return [start, *((start * 41 + i * 7) % VOCABULARY for i in range(1, length))]


@dataclass(slots=True)
class Story:
    """Story of one client's request.

    `events` are those that the client read, `unread` those left in the buffer when it had gone.
    """

    asked: GenerationRequest
    connection: trio.CancelScope = field(default_factory=trio.CancelScope)  # cancelled: the client hangs up
    events: list[Event] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  # when each of them was read
    unread: list[Event] = field(default_factory=list)
    error: CedeError | None = None  # refused at the door
    opened: bool = False
    ended: bool = False
    receipts: list[Receipt] = field(default_factory=list)
    went_on: bool = False  # while its client, who had left it so, was away
    left_at: float | None = None  # when the client hung up, in virtual time, and
    deleted_at: float | None = None  # when an operator cancelled it, where that is known
    group_ended_at: float | None = None  # when its group was ended, if it was

    @property
    def hung_up(self) -> bool:
        """Return whether the client left before the end."""
        return self.connection.cancelled_caught

    @property
    def receipt(self) -> Receipt:
        """The only one."""
        (receipt,) = self.receipts
        return receipt

    def tokens(self, index: int = 0, *, all: bool = False) -> list[int]:
        """Ids of the tokens read, or of all that were sent."""
        events = [*self.events, *self.unread] if all else self.events
        return [event.token_id for event in events if isinstance(event, Token) and event.index == index]

    def prompt_scores(self, index: int = 0) -> list[tuple[int, TokenScore | None]]:
        """Tokens of the prompt with their scores, of all that was sent."""
        events = [*self.events, *self.unread]
        scored = [event for event in events if isinstance(event, PromptScored) and event.index == index]
        return [token for event in scored for token in event.tokens]

    def text(self, index: int = 0) -> str:
        """All text read."""
        return "".join(e.text for e in self.events if isinstance(e, Token | Finished) and e.index == index)

    def last(self, index: int = 0) -> Finished | Failed | None:
        """Return how a generation ended, if that was ever said, and that nothing came after it."""
        events = [event for event in [*self.events, *self.unread] if event.index == index]
        ends = [event for event in events if isinstance(event, Finished | Failed)]
        assert ends == events[-1:] or not ends, f"{self.asked.id}/{index}: more than one end, or not at the end"
        return ends[0] if ends else None

    def finished(self, index: int = 0) -> Finished:
        """As `last`, for one that did not fail."""
        last = self.last(index)
        assert isinstance(last, Finished), last
        return last

    def failed(self, index: int = 0) -> CedeError:
        """The error of one that failed."""
        last = self.last(index)
        assert isinstance(last, Failed), last
        return last.error
