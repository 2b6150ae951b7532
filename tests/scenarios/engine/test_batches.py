"""Whole requests in one engine: which rows share a step, and what each of them waits for."""

from __future__ import annotations

from itertools import pairwise

import trio

from actors.core.generation import FinishReason
from runtime.loading.served import Proposer
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import together


@simulated(seeds=4)
async def test_all_decodes_share_each_step() -> None:
    async with open_simulation(slots=4) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(4, start=n + 3), max_tokens=10)) for n in range(4)]
        await together(sim, *((story, {}) for story in stories))
        assert [len(story.tokens()) for story in stories] == [10] * 4
        # One chunk for each prompt (8 rows a step) and nine decode steps, shared by all from the third on.
        full = [step for step in sim.steps if len(step.runs) == 4]
        assert len(full) >= 8
        assert len(sim.steps) <= 13


@simulated(seeds=8)
async def test_a_batch_stays_full_from_step_to_step() -> None:
    async with open_simulation(slots=3, chunk_tokens=64) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(4, start=n + 3), max_tokens=20)) for n in range(3)]
        await together(sim, *((story, {}) for story in stories))
        assert len(sim.steps) == 20
        assert {len(step.runs) for step in sim.steps} == {3}


@simulated()
async def test_a_request_alone_takes_as_many_steps_as_it_must() -> None:
    async with open_simulation() as sim:
        story = await sim.client(ask("a", prompt(20), max_tokens=5))
        assert [step.rows for step in sim.steps] == [8, 8, 4, 1, 1, 1, 1]
        assert story.finished().completion_tokens == 5
        statistics = sim.engine.statistics().manager
        assert (statistics.steps, statistics.rows) == (7, 24)
        assert (statistics.prefill_tokens, statistics.decode_tokens) == (20, 4)


@simulated(seeds=4)
async def test_prompts_share_the_budget_and_a_short_one_is_not_kept_waiting() -> None:
    async with open_simulation(slots=2) as sim:
        long, short = sim.expect(ask("long", prompt(200))), sim.expect(ask("short", prompt(12, start=5)))
        await together(sim, (long, {}), (short, {"arrives": 0.05}))
        assert short.times[0] < long.times[0] / 2
        assert all(step.rows <= 8 + 1 for step in sim.steps)


@simulated()
async def test_nobody_starves_even_where_there_are_more_prompts_than_rows() -> None:
    """The oldest gets half of the rows, however many shorter ones come after it."""
    async with open_simulation(slots=4, chunk_tokens=2) as sim:
        oldest = sim.expect(ask("oldest", prompt(20)))
        shorter = [sim.expect(ask(f"r{n}", prompt(6, start=n + 3))) for n in range(12)]
        await together(sim, (oldest, {}), *((story, {"arrives": 0.001}) for story in shorter))
        assert all(story.finished().reason is FinishReason.LENGTH for story in (oldest, *shorter))
        before = sum(story.times[0] < oldest.times[0] for story in shorter)
        assert 0 < before < 6, "half of some 40 rows are the oldest's: six of six do not fit into the rest"


@simulated(seeds=2)
async def test_a_long_prompt_does_not_hold_up_its_decoding_neighbours() -> None:
    async with open_simulation(
        slots=3, context=1100, chunk_tokens=None, step_seconds=lambda rows: 0.004 + 0.0005 * rows
    ) as sim:
        decoding = [sim.expect(ask(f"r{n}", prompt(4, start=n + 3), max_tokens=60)) for n in range(2)]
        long = sim.expect(ask("long", prompt(1000, start=9), max_tokens=2))
        await together(sim, *((story, {}) for story in decoding), (long, {"arrives": 0.1}))
        assert long.finished().prompt_tokens == 1000
        for story in decoding:
            gaps = [b - a for a, b in pairwise(story.times)]
            assert max(gaps) <= 0.025, "an inter-token gap beyond the target step time"
        beside = [step for step in sim.steps if len(step.runs) == 3 and step.rows > 3]
        assert len(beside) > 8
        assert sum(step.rows for step in beside[3:8]) > 5 * 25, "the chunks are smaller than the target allows"


@simulated(seeds=2)
async def test_a_drafter_that_catches_up_does_not_hold_up_its_decoding_neighbours() -> None:
    async with open_simulation(
        slots=2,
        context=1300,
        chunk_tokens=None,
        step_seconds=lambda rows: 0.004 + 0.0015 * rows,
        speculate=Proposer.DRAFT,
        draft_tokens=3,
    ) as sim:
        plain = sim.expect(ask("plain", prompt(4), max_tokens=1200, speculate=False))
        drafts = sim.expect(ask("drafts", prompt(1000, start=9), max_tokens=20))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, plain.asked)
            await sim.client(drafts.asked, arrives=0.1)
            nursery.cancel_scope.cancel()
        assert drafts.finished().timings.draft_n_accepted > 5
        gaps = [b - a for a, b in pairwise(plain.times)]
        assert max(gaps) <= 0.045, "an inter-token gap beyond a step of the drafter and one of the model"
