"""Findings of the self-test's checks of cancels."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.config import EngineConfig
from actors.core.life import State
from actors.core.receipts import CancelReason, Receipt
from actors.engine import open_engine
from actors.selftest.cancel_checks import CancelChecks, Limits, judge
from runtime.checkpoint.config import ModelConfig
from runtime.loading.options import LoadOptions
from runtime.loading.served import ServedModel
from runtime.nn.model import Transformer
from runtime.selftest.findings import Mismatch
from runtime.step.executor import InlineExecutor
from runtime.step.job import StepJob
from runtime.step.step import StepResult
from web.selftest import TEXT


def _receipt(**fields: Any) -> Receipt:  # noqa: ANN401
    figures = dict.fromkeys(("cached_tokens", "wasted_tokens", "drafted_tokens", "accepted_tokens"), 0)
    figures |= {"prompt_tokens": 9, "computed_tokens": 4, "kept_tokens": 4, "layers_after_cancel": 1}
    times = {"detected_at": 10.0, "last_kernel_at": 10.002, "slot_freed_at": 10.005}
    return Receipt("id", 0, CancelReason.OPERATOR, **({"phase": "prefill"} | times | figures | fields))


def test_a_receipt_becomes_figures() -> None:
    figures = judge(_receipt(), "prefill", 1)
    assert figures["cancel_to_last_kernel_ms"] == pytest.approx(2)
    assert figures["cancel_to_slot_free_ms"] == pytest.approx(5)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"layers_after_cancel": 3}, "3 layers ended after the cancel"),
        ({"phase": "decode"}, "noticed in phase decode, not prefill"),
        ({"slot_freed_at": None}, "the slot was not freed"),
    ],
)
def test_a_receipt_that_must_not_be_is_noticed(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Mismatch, match=says):
        judge(_receipt(**fields), "prefill", 1)


CONFIG = EngineConfig(slots=2, queue=2, chunk_tokens=64, burst_seconds=None)


class Forgetful(InlineExecutor):
    """Whoever finds all of a prompt but its last token in a slot finds nothing there but zeros."""

    def __init__(self, model: Transformer, resident: int) -> None:
        super().__init__(model)
        self._kv, self._resident = model.kv, resident

    async def run_step(self, job: StepJob) -> StepResult:
        """Forget the slot of whoever comes back, and run the step."""
        for segment in job.segments:
            if segment.start == self._resident and segment.sample is not None and not segment.sample.generated:
                for layer in range(self._kv.row_shape[0]):
                    for rows in self._kv.read(layer, segment.slot, 0, segment.start, segment.pages):
                        rows.zero_()
        return await super().run_step(job)


async def test_tokens_that_differ_are_noticed(
    model: Transformer, loaded: tuple[LoadOptions, ModelConfig, ServedModel]
) -> None:
    text = loaded[2].tokenizer.encode(TEXT)
    limits = Limits(layers=1, tie=1e-3)
    for executor in (InlineExecutor(model), Forgetful(model, 63)):
        async with open_engine(executor, loaded[2], CONFIG) as engine:
            checks = CancelChecks(engine, text, limits, tokens=24, rounds=1)
            if isinstance(executor, Forgetful):
                with pytest.raises(Mismatch, match="the retry was told token"), trio.fail_after(60):
                    await checks.cancel_in(State.DECODE)
            else:
                figures = await checks.cancel_in(State.DECODE)
                assert figures["reused_tokens"] == 63
                assert (await checks.cancel_queued())["layers_after_cancel"] == 0
