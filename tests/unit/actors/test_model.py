"""A model for embedders: what its answers tell, what leaving one early does, and how errors come out."""

from __future__ import annotations

import sys
from subprocess import run

import pytest
import trio
from trio.testing import MockClock

import actors
from actors import EngineConfig, LoadOptions, SamplingParams, Turn, open_model
from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from actors.engine import open_engine
from actors.model import OpenModel
from actors.testing.simulated import open_simulated
from runtime.chat.chat import Chat
from runtime.chat.template import ChatTemplate
from runtime.errors import CheckpointError, QueueFull, RequestError, StepFailed
from runtime.step.executor import SimulatedExecutor
from runtime.store.resolve import resolve_model
from runtime.testing.faults import Chaos, FaultPlan, NotFinite
from runtime.testing.simulated import SimulatedModel, stand_in

GREEDY = SamplingParams(temperature=0)


def simulated() -> SimulatedModel:
    return SimulatedModel(slots=1, context=128, vocab_size=128)


async def test_an_answer_is_the_models_own_in_pieces_and_whole(autojump_clock: MockClock) -> None:
    device, prompt = simulated(), b"def"
    async with open_simulated(device) as model:
        ids = model.engine.model.tokenizer.encode(prompt.decode())
        async with model.generate("def", GREEDY, max_tokens=20) as answer:
            pieces = [piece async for piece in answer]
        async with model.generate(ids, GREEDY, max_tokens=20) as again:
            assert await again.read() == answer.text == "".join(pieces)
    assert again.tokens == answer.tokens == device.continuation(ids, 20)
    assert answer.finished is not None
    assert (answer.finished.reason, answer.receipt) == (FinishReason.LENGTH, None)


async def test_leaving_an_answer_early_cancels_it_and_its_receipt_is_there(autojump_clock: MockClock) -> None:
    async with open_simulated(simulated()) as model:
        async with model.generate((1, 2, 3), GREEDY, id="left") as answer:
            async for _ in answer:
                if len(answer.tokens) >= 3:
                    break
        assert answer.finished is None
        assert answer.receipt is not None
        assert (answer.receipt.request_id, answer.receipt.reason) == ("left", CancelReason.DISCONNECT)
        assert [slot.request_id for slot in model.engine.slots()] == [None]


async def test_a_cancel_from_outside_leaves_a_receipt_too(autojump_clock: MockClock) -> None:
    async with open_simulated(simulated()) as model:
        with trio.move_on_after(0.05):
            async with model.generate((1, 2, 3), GREEDY) as answer:
                await answer.read()
        assert answer.receipt is not None
        assert answer.receipt.kept_tokens > 3


async def test_a_whole_answer_has_no_receipt_of_an_earlier_one_of_its_id(autojump_clock: MockClock) -> None:
    async with open_simulated(simulated()) as model:
        async with model.generate((1, 2, 3), GREEDY, id="same") as left:
            await anext(left)
        async with model.generate((1, 2, 3), GREEDY, max_tokens=5, id="same") as whole:
            await whole.read()
    assert left.receipt is not None
    assert (whole.finished is not None, whole.receipt) == (True, None)


async def test_an_interrupt_comes_out_as_it_is_with_its_own_context(autojump_clock: MockClock) -> None:
    """As in a notebook, where a portal that gets a group ends, and the model with it."""
    own = ZeroDivisionError("before it")
    async with open_simulated(simulated()) as model:

        async def interrupted() -> None:
            async with model.generate((1, 2, 3), GREEDY) as answer:
                await anext(answer)
                try:
                    raise own
                except ZeroDivisionError:
                    raise KeyboardInterrupt  # noqa: B904  its context is what is looked at

        with pytest.raises(KeyboardInterrupt) as raised:
            await interrupted()
        assert raised.value.__context__ is own
        async with model.generate((1, 2, 3), GREEDY, max_tokens=5) as answer:
            assert await answer.read()


async def test_an_error_in_the_scope_comes_out_as_it_is_and_cancels(autojump_clock: MockClock) -> None:
    async with open_simulated(simulated()) as model:
        left = []

        async def fail() -> None:
            async with model.generate((1, 2, 3), GREEDY) as answer:
                left.append(answer)
                await anext(answer)
                raise ValueError("of my own")

        with pytest.raises(ValueError, match="of my own"):  # and not a group of it
            await fail()
        assert [answer.receipt is None for answer in left] == [False]


async def test_a_generation_that_fails_raises_its_error(autojump_clock: MockClock) -> None:
    chaos = Chaos(FaultPlan((NotFinite(step=2, segment=0),)))
    async with open_simulated(simulated(), chaos) as model:
        with pytest.raises(StepFailed):
            async with model.generate((1, 2, 3), GREEDY, max_tokens=9) as answer:
                await answer.read()


async def test_what_is_refused_is_refused_on_entering(autojump_clock: MockClock) -> None:
    async with open_simulated(simulated(), config=EngineConfig(queue=0)) as model:
        with pytest.raises(RequestError, match="the prompt is empty"):
            async with model.generate(()):
                pass
        async with model.generate((1, 2)) as answer:
            await anext(answer)
            with pytest.raises(QueueFull):
                async with model.generate((1, 2)):
                    pass
        with pytest.raises(RequestError, match="no chat template"):
            model.chat([Turn("user", "hello")])


async def test_a_chat_is_what_its_template_writes(autojump_clock: MockClock) -> None:
    device = simulated()
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    served = stand_in(device, chat=Chat(ChatTemplate(template)))
    async with open_engine(SimulatedExecutor(device, lambda rows: 0.001), served, EngineConfig(slots=1)) as engine:
        async with OpenModel(engine).chat([Turn("user", "hi")], GREEDY, max_tokens=8) as answer:
            await answer.read()
    prompt = served.tokenizer.encode("<user>hi<assistant>", add_special_tokens=False)
    assert answer.tokens == device.continuation(prompt, 8)


async def test_a_model_of_several_processes_is_refused() -> None:
    with pytest.raises(CheckpointError, match="tensor_parallel"):
        async with open_model(LoadOptions(resolve_model(None), tensor_parallel=2)):
            pass


def test_what_embedders_use_is_imported_when_it_is_asked_for() -> None:
    """Else the command line's options, which are in this package, would wait for torch."""
    assert [name for name in actors.__all__ if getattr(actors, name) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'open_modle'"):
        _ = actors.open_modle
    run([sys.executable, "-c", "import actors, sys; assert 'torch' not in sys.modules"], check=True)
