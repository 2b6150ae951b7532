"""What a prompt gives besides KV is what it gives alone: with cached prefixes, faults, cancels and neighbours."""

from __future__ import annotations

from array import array
from functools import partial
from pathlib import Path

import pytest
import trio

from actors.core.generation import FinishReason
from runtime.step.prompt_rows.wanted import Pooling, PromptOutputs
from tests.fakes.kv_simulation import SettledDisk, fresh, rewrite, text
from tests.fakes.simulation import CULPRIT, Simulation, ask, open_simulation, prompt, simulated
from tests.scenarios.kv.cursed import PROMPT, blocks, warm
from tests.sim.clients import Story

LONG = prompt(60)
ALL = PromptOutputs(Pooling.MEAN, 2)


def check(sim: Simulation, story: Story, outputs: PromptOutputs) -> None:
    """Check all that a prompt has to give (which the simulation does by itself, as I15), and that it is there."""
    last = story.finished()
    assert last.reason is FinishReason.LENGTH
    if outputs.pooling is not None:
        assert last.vector == array("f", sim.model.embedding(story.asked.prompts[0], outputs.pooling))
    if outputs.alternatives is not None:
        assert story.prompt_scores() == sim.model.scores(story.asked.prompts[0], outputs.alternatives)


@pytest.mark.parametrize("chunk", [1, 8, 64])
@pytest.mark.parametrize("max_tokens", [0, 3])
@simulated()
async def test_a_prompt_gives_what_it_gives_in_one_chunk(chunk: int, max_tokens: int) -> None:
    async with open_simulation(chunk_tokens=chunk) as sim:
        story = await sim.client(ask("a", LONG, max_tokens=max_tokens, outputs=ALL))
        check(sim, story, ALL)
        assert len(story.tokens()) == max_tokens


@simulated()
async def test_the_mean_is_made_of_all_rows_whatever_is_cached() -> None:
    async with open_simulation(slots=1) as sim:
        await sim.client(ask("before", LONG))
        story = await sim.client(ask("a", LONG, max_tokens=0, outputs=PromptOutputs(Pooling.MEAN)))
        check(sim, story, PromptOutputs(Pooling.MEAN))
        assert story.finished().cached_tokens == 0


@simulated()
async def test_the_last_state_needs_one_row_and_uses_what_is_cached() -> None:
    async with open_simulation(slots=1) as sim:
        await sim.client(ask("before", LONG))
        story = await sim.client(ask("a", LONG, max_tokens=0, outputs=PromptOutputs(Pooling.LAST)))
        check(sim, story, PromptOutputs(Pooling.LAST))
        assert story.finished().cached_tokens == len(LONG) - 1


@simulated()
async def test_a_prompt_of_one_token_has_a_score_that_is_none() -> None:
    async with open_simulation() as sim:
        story = await sim.client(ask("a", [7], max_tokens=0, outputs=ALL))
        check(sim, story, ALL)
        assert story.prompt_scores() == [(7, None)]


@simulated()
async def test_a_retry_begins_its_sum_anew() -> None:
    async with open_simulation(slots=1) as sim:
        left = await sim.client(ask("a", LONG, max_tokens=0, outputs=ALL), hang_up_at=0.08)
        assert left.receipt.kept_tokens in range(1, len(LONG))
        assert left.receipt.phase == "prefill"
        check(sim, await sim.client(ask("b", LONG, max_tokens=0, outputs=ALL)), ALL)


@simulated()
async def test_neighbours_that_fail_or_leave_take_nothing() -> None:
    async with open_simulation(slots=4) as sim:
        sim.faults.raise_on.add(CULPRIT)
        mine = ask("a", LONG, max_tokens=2, outputs=ALL)
        story = sim.expect(mine)
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, mine)
            clients.start_soon(sim.client, ask("b", [*prompt(30, start=4), CULPRIT], max_tokens=0, outputs=ALL))
            clients.start_soon(partial(sim.client, ask("c", prompt(50, start=5), outputs=ALL), hang_up_at=0.05))
            clients.start_soon(sim.client, ask("d", prompt(40, start=6), max_tokens=9))
        check(sim, story, ALL)


@simulated()
async def test_a_prompt_whose_cached_kv_lies_is_pooled_from_its_second_reading(tmp_path: Path) -> None:
    """An audit finds the lie when the whole prompt was read: what that gave is for nobody."""
    folder, wanted = fresh(tmp_path), PromptOutputs(Pooling.LAST)
    async with warm(folder, "disk", audit_share=1.0) as sim:
        assert isinstance(sim.cache.tiers.disk, SettledDisk)
        rewrite(folder, blocks(sim, sim.cache.tiers.disk)[0], [row ^ 0xF000F000 for row in sim.truth.rows(PROMPT)[:64]])
        sim.let_blocks_lie()
        story = await sim.client(ask("client", PROMPT + text(20, 2), max_tokens=0, outputs=wanted))
        assert sim.cache.statistics().audit_failures == 1
        check(sim, story, wanted)
        sim.watch.kv_is_exact = True
        await sim.settle()
