"""Growth of a chunk's time with what lies before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.engine.models.open_models import EMBEDDED, ModelSpec, open_model
from bench.engine.scaling import Line
from bench.engine.scaling import measure as measure_scaling
from runtime.selftest.rates import CHUNK


def test_a_line_is_told_from_a_curve() -> None:
    before = range(0, 4096, 512)
    straight = Line.through(before, [0.5 + 2e-4 * tokens for tokens in before])
    assert [straight.constant, straight.slope] == pytest.approx([0.5, 2e-4])
    assert straight.curved == pytest.approx(0, abs=1e-9)
    assert Line.through(before, [0.5 + 1e-7 * tokens**2 for tokens in before]).curved > 0.1


async def test_a_long_prompt_is_measured_chunk_by_chunk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    length = 3 * CHUNK
    spec = ModelSpec(EMBEDDED, slots=2, context=length + 2, device="cpu", dtype="float32")
    async with open_model(spec) as (executor, _):
        await executor.call(lambda: measure_scaling(executor.model, length, 2, 2, rounds=1, out=tmp_path))
    chunks, memory = capsys.readouterr().out.splitlines()
    assert chunks.startswith(f"{length} tokens in chunks of {CHUNK}: ")
    assert memory.startswith(f"2 streams, {length} tokens deep: ")
    assert (tmp_path / "scaling.png").stat().st_size > 1000
