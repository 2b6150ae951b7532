"""A group that is ended as a whole: an agent's tree of requests."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.control import Control
from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import EndedByAnotherRequest
from tests.fakes.simulation import Simulation, Story, ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import together

TREE = ["agent", *(f"agent/{i}" for i in range(3)), *(f"agent/{i}/{j}" for i in range(3) for j in range(12))]
"""A root, three below it, and twelve below each of those: forty."""


def in_group(sim: Simulation, name: str | None, request_id: str, **more: Any) -> Story:  # noqa: ANN401
    """The story of a request in a group."""
    start = 3 + len(sim.stories) % 30
    more = dict[str, Any](max_tokens=60, control=Control(group=name)) | more
    return sim.expect(ask(request_id, prompt(30, start=start), **more))


@simulated(seeds=3)
async def test_a_tree_of_forty_ends_with_one_call_and_a_neighbour_notices_nothing() -> None:
    assert len(TREE) == 40
    async with open_simulation(slots=8, queue=64) as sim:
        tree = [in_group(sim, name, f"t{n}") for n, name in enumerate(TREE)]
        neighbour = sim.expect(ask("neighbour", prompt(20, start=35), max_tokens=40))
        ended_at = 0.0

        async def end() -> None:
            nonlocal ended_at
            await trio.sleep(0.15)
            assert len(sim.engine.groups.live()) == 40
            ended_at = trio.current_time()
            assert len(sim.end_group(None, "agent")) == 40

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            nursery.start_soon(sim.client, neighbour.asked)
            await trio.sleep(0.001)
            for story in tree:
                nursery.start_soon(sim.client, story.asked)
        receipts = [story.receipt for story in tree]
        assert {receipt.reason for receipt in receipts} == {CancelReason.GROUP}
        assert {receipt.group for receipt in receipts} == set(TREE)
        held = [receipt for receipt in receipts if receipt.slot_freed_at is not None]
        assert len(held) == 7, "of eight slots one is the neighbour's"
        step = next(step for step in sim.steps if step.finished_at >= ended_at)
        for receipt in held:
            assert receipt.slot_freed_at is not None
            assert receipt.layers_after_cancel <= 1
            assert receipt.slot_freed_at <= step.finished_at + 1e-5, "within the step that ran"
        assert neighbour.finished().reason is FinishReason.LENGTH
        assert neighbour.tokens() == sim.model.continuation(neighbour.asked.prompts[0], 40)
        for story in tree:
            assert story.finished().cancelled is CancelReason.GROUP, "who still listens is told why"


@simulated()
async def test_a_group_is_ended_with_those_in_it_and_no_other() -> None:
    async with open_simulation(slots=8) as sim:
        names = ["a", "a/b", "a/b/c", "ab", "b", "b/a", None]
        stories = [in_group(sim, name, f"r{n}", max_tokens=20) for n, name in enumerate(names)]

        async with trio.open_nursery() as nursery:
            for story in stories:
                nursery.start_soon(sim.client, story.asked)
            await trio.sleep(0.1)
            assert sorted(sim.end_group(None, "a/b")) == ["r1", "r2"]
            assert sorted(sim.end_group(None, "a")) == ["r0", "r1", "r2"], "some of them are still leaving"
            assert sim.end_group(None, "c") == []
        assert [bool(story.receipts) for story in stories] == [True, True, True, False, False, False, False]


@simulated()
async def test_a_group_is_its_owners_alone() -> None:
    async with open_simulation(slots=4) as sim:
        alice = in_group(sim, "g", "alice's", owner="alice")
        bob = in_group(sim, "g", "bob's", owner="bob")
        async with trio.open_nursery() as nursery:
            for story in (alice, bob):
                nursery.start_soon(sim.client, story.asked)
            await trio.sleep(0.1)
            assert {(group.owner, group.requests) for group in sim.engine.groups.live()} == {
                ("alice", ("alice's",)),
                ("bob", ("bob's",)),
            }
            assert sim.end_group(None, "g") == []
            assert sim.end_group("bob", "g") == ["bob's"]
        assert not alice.receipts
        assert bob.receipt.reason is CancelReason.GROUP


@simulated()
async def test_a_request_that_comes_after_the_end_of_its_group_is_a_new_one() -> None:
    async with open_simulation(slots=2) as sim:
        first, later = (in_group(sim, "g", name, max_tokens=8) for name in ("first", "later"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, first.asked)
            await trio.sleep(0.05)
            sim.end_group(None, "g")
            nursery.start_soon(sim.client, later.asked)
        assert first.receipt.reason is CancelReason.GROUP
        assert later.finished().reason is FinishReason.LENGTH
        assert sim.engine.groups.live() == []


# --- races ------------------------------------------------------------------------------------------------------------


def racer(sim: Simulation, name: str, max_tokens: int, **more: Any) -> Story:  # noqa: ANN401
    """The story of a request that runs against others."""
    control = Control(group="race", first_wins=True)
    return sim.expect(ask(name, prompt(10, start=len(name)), max_tokens=max_tokens, control=control, **more))


@simulated(seeds=3)
async def test_the_first_of_a_race_ends_the_others() -> None:
    async with open_simulation(slots=4) as sim:
        slow, quick, queued = racer(sim, "slow", 50), racer(sim, "quick!", 8), racer(sim, "queued!!", 50)
        bystander = in_group(sim, "race", "bystander", max_tokens=20)
        await together(sim, *((story, {}) for story in (slow, quick, queued, bystander)))
        assert quick.finished().reason is FinishReason.LENGTH
        for loser in (slow, queued):
            assert loser.receipt.reason is CancelReason.SIBLING_WON
            assert loser.finished().cancelled is CancelReason.SIBLING_WON
        assert not bystander.receipts, "it is of the group, and does not race"


@simulated(seeds=20)
async def test_of_two_that_finish_in_one_step_one_wins() -> None:
    async with open_simulation(slots=4, chunk_tokens=64) as sim:
        both = [racer(sim, name, 8) for name in ("one", "other")]
        await together(sim, *((story, {}) for story in both))
        reasons = sorted(story.finished().reason for story in both)
        assert reasons == [FinishReason.CANCELLED, FinishReason.LENGTH]
        (loser,) = (story for story in both if story.receipts)
        assert len(loser.tokens(all=True)) == 8, "it had all its tokens, in the very step"


@simulated()
@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_who_does_not_finish_well_wins_nothing(how: str) -> None:
    async with open_simulation(slots=4) as sim:
        first, second = racer(sim, "first", 5), racer(sim, "second", 20)
        if how == "fails":
            sim.faults.text_raises_on.update(sim.model.continuation(first.asked.prompts[0], 3)[-1:])
        together_with = {"hang_up_after": 2} if how == "is cancelled" else {}
        await together(sim, (first, together_with), (second, {}))
        assert second.finished().reason is FinishReason.LENGTH


@simulated()
async def test_all_generations_of_a_request_finish_before_it_wins() -> None:
    async with open_simulation(slots=4) as sim:
        control = Control(group="race", first_wins=True)
        two = sim.expect(ask("two", prompt(4, start=3), prompt(90, start=4), max_tokens=6, control=control))
        one = racer(sim, "one", 8)
        await together(sim, (two, {}), (one, {}))
        assert one.finished().reason is FinishReason.LENGTH
        assert [two.finished(index).reason for index in range(2)] == [FinishReason.LENGTH, FinishReason.CANCELLED]


@simulated()
async def test_one_that_is_ended_on_its_way_is_refused_and_leaves_nothing() -> None:
    """A long prompt's names are made in pieces, between which others run."""
    async with open_simulation(slots=2, context=50000) as sim:
        story = sim.expect(ask("long", prompt(40000), control=Control(group="g")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, story.asked)
            while not sim.engine.groups.live():
                await trio.lowlevel.checkpoint()
            assert sim.end_group(None, "g") == ["long"]
        assert isinstance(story.error, EndedByAnotherRequest)
        assert (story.error.status, story.error.code) == (409, "group")
        assert not story.receipts
        assert sim.engine.unread.statistics().readers == 0
