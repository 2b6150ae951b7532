"""Collection of a request's events into one object: to the end, the first failure, or the cut of its reader."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from actors.core.generation import Failed, Finished, GenerationRequest, Progress, Token
from actors.core.receipts import CancelReason
from actors.generating.unread import Unread
from actors.request import Request
from runtime.errors import CedeError, StepFailed
from runtime.sampling.params import SamplingParams
from tests.fakes.engine import FakeRequest, finished, say, token
from web.bodies.collect import collect


class Letters:
    """Collects what is said; an `EventCollector`."""

    def __init__(self) -> None:
        self.said = ""

    def __len__(self) -> int:
        """Return the number of letters."""
        return len(self.said)

    def add(self, event: Progress) -> None:
        """Add what an event says."""
        self.said += event.text if isinstance(event, Token | Finished) else ""

    def result(self) -> dict[str, Any]:
        """Return what was said."""
        return {"said": self.said}


def request(generations: int = 1) -> FakeRequest:
    return FakeRequest(GenerationRequest("r", ((1,),) * generations, SamplingParams()))


async def test_all_events_are_collected() -> None:
    asked, unread = request(), Unread()
    asked.emit(*say("ab", "c"))
    with unread.backlog("r", gathering=True) as backlog:
        assert await collect(cast("Request", asked), Letters, backlog) == {"said": "abc"}
        assert unread.statistics().bytes == 3
    assert not asked.cancels


async def test_the_first_failure_ends_it_and_the_other_generations() -> None:
    asked = request(2)
    asked.emit(token("a"), Failed(1, StepFailed("no")), token("b"))
    with Unread().backlog("r", gathering=True) as backlog, pytest.raises(StepFailed, match="no"):
        await collect(cast("Request", asked), Letters, backlog)
    assert asked.cancels == [CancelReason.FAULT]


@pytest.mark.parametrize("more", [[], [token("b")], [finished(text="b")]])
async def test_a_reader_that_is_cut_is_told_so_whatever_comes_then(more: list[Token | Finished]) -> None:
    asked, unread = request(), Unread(each=3)
    asked.emit(token("abcd"), *more)
    with unread.backlog("r", gathering=True) as backlog, trio.fail_after(5):
        with pytest.raises(CedeError, match="grew beyond"):
            await collect(cast("Request", asked), Letters, backlog)
    assert asked.cancels[0] is CancelReason.STALLED_READER, "the first one counts"
