"""A device that fails once, an operator who cancels somebody, and two clients: who was not hit notices nothing."""

import trio
from trio.testing import MockClock

from actors import Answer, SamplingParams
from actors.testing.simulated import open_simulated
from runtime.testing.faults import CancelAt, Chaos, DeviceError, FaultPlan
from runtime.testing.simulated import SimulatedModel

GREEDY = SamplingParams(temperature=0)


async def test_a_fault_costs_nobody_else_anything(autojump_clock: MockClock) -> None:
    device = SimulatedModel(slots=2, context=256)
    chaos = Chaos(FaultPlan((DeviceError(step=5, layer=2), CancelAt(actor="decode", checkpoint=20))))
    prompts, answers = {"a": (1, 2, 3), "b": (4, 5)}, dict[str, Answer]()

    async def client(name: str) -> None:
        async with model.generate(prompts[name], GREEDY, max_tokens=30) as answers[name]:
            await answers[name].read()

    async with open_simulated(device, chaos) as model, trio.open_nursery() as clients:
        for name in prompts:
            clients.start_soon(client, name)
    assert len(chaos.fired) == 2
    assert sum(answer.receipt is not None for answer in answers.values()) == 1
    for name, answer in answers.items():
        assert answer.tokens == device.continuation(prompts[name], len(answer.tokens))
        assert (len(answer.tokens) < 30) == (answer.receipt is not None)
