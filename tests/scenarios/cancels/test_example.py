"""A device that fails once, an operator who cancels somebody, and two clients: who was not hit notices nothing."""

import trio
from trio.testing import MockClock

from actors.config import EngineConfig
from actors.core.generation import GenerationRequest, Token
from actors.engine import Engine, open_engine
from actors.testing.chaos import open_chaos
from runtime.checkpoint.open import open_checkpoint
from runtime.loading.served import ServedModel
from runtime.sampling.params import SamplingParams
from runtime.step.executor import SimulatedExecutor
from runtime.store.resolve import resolve_model
from runtime.testing.faults import CancelAt, Chaos, DeviceError, FaultPlan
from runtime.testing.simulated import SimulatedModel
from runtime.testing.unreliable import UnreliableModel
from runtime.text.tokenizer import Tokenizer


async def client(engine: Engine, name: str, prompt: tuple[int, ...], got: dict[str, list[int]]) -> None:
    asked = GenerationRequest(name, (prompt,), SamplingParams(temperature=0), max_tokens=30)
    async with engine.open_request(asked) as request:
        got[name] = [event.token_id async for event in request if isinstance(event, Token)]


async def test_a_fault_costs_nobody_else_anything(autojump_clock: MockClock) -> None:
    model = SimulatedModel(slots=2, context=256)
    chaos = Chaos(FaultPlan((DeviceError(step=5, layer=2), CancelAt(actor="decode", checkpoint=20))))
    executor = SimulatedExecutor(UnreliableModel(model, chaos), lambda rows: 0.001)
    served = ServedModel("stand-in", 0, 256, 1000, (), Tokenizer.load(open_checkpoint(resolve_model(None))))
    prompts, got = {"a": (1, 2, 3), "b": (4, 5)}, dict[str, list[int]]()
    async with open_engine(executor, served, EngineConfig(slots=2)) as engine, open_chaos(engine, chaos):
        async with trio.open_nursery() as clients:
            for name, prompt in prompts.items():
                clients.start_soon(client, engine, name, prompt, got)
        (receipt,) = engine.receipts(10)
    assert len(chaos.fired) == 2
    for name, tokens in got.items():
        assert tokens == model.continuation(prompts[name], len(tokens))
        assert (len(tokens) < 30) == (name == receipt.request_id)
