"""The benchmark of grammars runs, and its outputs go on for as long as they are asked to."""

from __future__ import annotations

from bench.engine.grammars import GRAMMARS, open_model, seconds_per_token, write


async def test_each_text_is_as_long_as_it_is_asked_to_be() -> None:
    async with open_model(None, 2) as engine:
        for name, grammar in GRAMMARS.items():
            times: list[float] = []
            await write(engine, name, grammar, 12, times)
            assert len(times) == 12
            assert await seconds_per_token(engine, grammar, 2, 4) > 0
