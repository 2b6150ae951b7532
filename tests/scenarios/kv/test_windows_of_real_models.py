"""Real models whose windowed layers keep a ring, behind the whole engine and its tiers, against transformers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import trio
from transformers import AutoModelForCausalLM

from actors.config import EngineConfig
from actors.core.events import StepEnded
from actors.core.generation import Failed, Finished, GenerationRequest, Token
from actors.core.observer import Observer
from actors.engine import Engine, open_engine
from actors.kv.config import CacheConfig, TierOptions
from actors.kv.opening import open_prefix_cache
from runtime.checkpoint.open import open_checkpoint
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.loading.load import describe_model
from runtime.loading.options import LoadOptions
from runtime.sampling.params import SamplingParams
from runtime.step.executor import InlineExecutor
from tests.fakes.kv_simulation import until
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import open_transformer, random_tokens

SLACK = 130  # beside a window of 16: less than the context of 256, and enough that the last two blocks are whole
PROMPT = random_tokens(200, below=256, seed=3)
TOKENS = 24
ROUNDING = 1e-5  # of a log-probability in float32
GREEDY = SamplingParams(temperature=0)


class Steps(Observer):
    """Says when so many steps have ended."""

    def __init__(self, count: int) -> None:
        self.done = trio.Event()
        self._left = count

    def step_ended(self, event: StepEnded) -> None:
        """Count."""
        self._left -= 1
        if not self._left:
            self.done.set()


class Subject(NamedTuple):
    """A checkpoint of which some or all layers have a window, and transformers' model of it."""

    folder: Path
    reference: Any


@pytest.fixture(scope="module", params=["mistral", "qwen2-window"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder = tmp_path_factory.mktemp(request.param)
    FAMILIES[request.param](folder)
    return Subject(folder, AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32))


@asynccontextmanager
async def serve(subject: Subject, kv_folder: Path | None = None, slots: int = 1) -> AsyncIterator[Engine]:
    model = open_transformer(subject.folder, slots=slots, slack=SLACK)
    checkpoint = open_checkpoint(subject.folder)
    described, _ = describe_model(LoadOptions(subject.folder, slots=slots), "windowed")
    served = replace(described, context_length=model.context, rings=model.kv.rings)
    tiers = TierOptions(ram=2**26, folder=kv_folder, flush_seconds=30.0)
    async with (
        open_prefix_cache(tiers, CacheConfig(audit_share=0.5), checkpoint, checkpoint.fingerprint(), model.kv) as cache,
        open_engine(InlineExecutor(model), served, EngineConfig(slots=slots), cache) as engine,
    ):
        yield engine
        engine.check_integrity()


async def ask(engine: Engine, prompt: list[int], name: str = "a") -> tuple[list[int], Finished]:
    """Return the tokens that follow a prompt, and how that ended."""
    asked = GenerationRequest(name, (tuple(prompt),), GREEDY, max_tokens=TOKENS, ignore_eos=True)
    tokens: list[int] = []
    async with engine.open_request(asked) as request:
        async for event in request:
            assert not isinstance(event, Failed), event.error
            if isinstance(event, Token):
                tokens.append(event.token_id)
            elif isinstance(event, Finished):
                return tokens, event
    raise AssertionError("it never ended")


@torch.inference_mode()
def check(subject: Subject, prompt: list[int], output: list[int]) -> None:
    """Each token scores as high with transformers as any other, to within the rounding of sums."""
    assert len(output) == TOKENS
    logits = subject.reference(torch.tensor([prompt + output[:-1]])).logits[0, len(prompt) - 1 :]
    scores = logits.float().log_softmax(-1)
    chosen = scores.gather(1, torch.tensor(output)[:, None])[:, 0]
    assert (chosen >= scores.amax(dim=1) - ROUNDING).all()


async def settle(engine: Engine) -> None:
    """Wait until nothing is left to save."""
    await until(lambda: not any(map(engine.manager.cache.waiting.any_of, range(len(engine.manager.table)))))


@pytest.mark.parametrize("forgets", [1, 100, 160])
async def test_a_prompt_with_another_end(subject: Subject, forgets: int) -> None:
    """Within what the ring bears and beyond it: right either way."""
    async with serve(subject) as engine:
        output, _ = await ask(engine, PROMPT)
        check(subject, PROMPT, output)
        changed = [*PROMPT[: len(PROMPT) - forgets], *PROMPT[:20]]
        output, finished = await ask(engine, changed)
        check(subject, changed, output)
        assert (finished.cached_tokens == len(PROMPT) - forgets) == (forgets < 110)


async def test_a_prompt_that_is_cancelled_again_and_again(subject: Subject) -> None:
    async with serve(subject) as engine:
        for steps in (1, 2, 3):
            asked = GenerationRequest("victim", (tuple(PROMPT),), GREEDY, max_tokens=TOKENS, ignore_eos=True)
            watch = Steps(steps)
            with trio.CancelScope() as scope, engine.observed_by(watch):
                async with engine.open_request(asked):
                    await watch.done.wait()
                    scope.cancel()
        output, _ = await ask(engine, PROMPT)
        check(subject, PROMPT, output)


async def test_four_at_a_time(subject: Subject) -> None:
    prompts = [PROMPT, PROMPT[:150], PROMPT[40:], [*PROMPT[:-5], 1, 2]]
    async with serve(subject, slots=4) as engine, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            output, _ = await ask(engine, prompts[number], f"r{number}")
            check(subject, prompts[number], output)

        for number in range(4):
            nursery.start_soon(one, number)


@pytest.mark.parametrize("tier", ["memory", "disk"])
async def test_a_conversation_that_goes_on_after_another_had_its_slot(
    subject: Subject, tier: str, tmp_path: Path
) -> None:
    async with serve(subject, tmp_path) as engine:
        output, _ = await ask(engine, PROMPT)
        await settle(engine)
        await ask(engine, random_tokens(180, below=256, seed=9))
        if tier == "memory":
            await _goes_on(subject, engine, [*PROMPT, *output[:5], *PROMPT[:5]])
    if tier == "disk":
        async with serve(subject, tmp_path) as engine:
            await _goes_on(subject, engine, [*PROMPT, *output[:5], *PROMPT[:5]])


async def _goes_on(subject: Subject, engine: Engine, longer: list[int]) -> None:
    output, finished = await ask(engine, longer)
    check(subject, longer, output)
    blocks = len(PROMPT) // BLOCK_TOKENS
    assert finished.cached_tokens in (blocks * BLOCK_TOKENS, (blocks - 1) * BLOCK_TOKENS)  # the last may be audited
    assert engine.statistics().manager.cache.audit_failures == 0
