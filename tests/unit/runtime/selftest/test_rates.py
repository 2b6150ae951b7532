"""The loops over a model alone: a prompt in chunks, and a token a step."""

from __future__ import annotations

from bench.engine.models.open_models import open_model
from runtime.selftest.rates import decode, prefill, random_prompt
from tests.unit.bench.engine.small_models import DEPTH, ROOM


async def test_the_loop_reads_in_chunks_and_decodes() -> None:
    async with open_model(ROOM) as (executor, _):
        model = executor.model
        read = await executor.call(lambda: prefill(model, 0, random_prompt(model, DEPTH, 1), chunk=3))
        steps = await executor.call(lambda: decode(model, 1, DEPTH, 4))
    assert len(read) == 3
    assert [len(step.segments[0].tokens) for step in steps] == [1] * 4
