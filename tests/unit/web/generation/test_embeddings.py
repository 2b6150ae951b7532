"""Batches of inputs, slice by slice."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import trio

from actors.core.generation import Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import RequestError, StepFailed
from runtime.step.prompt_rows.wanted import Pooling, PromptOutputs
from tests.fakes.engine import FakeEngine, FakeRequest, finished, model, posting
from tests.unit.web.apps import make
from web.generation.embeddings import pooling_of

PATH = "/v1/embeddings"


async def lengths(request: FakeRequest) -> None:
    """Each input's vector says how long it is; the last of a slice ends first."""
    for index, prompt in reversed([*enumerate(request.asked.prompts)]):
        vector = array("f", [3.0 * len(prompt), 4.0 * len(prompt)])
        request.emit(replace(finished(index, FinishReason.LENGTH, tokens=0), vector=vector))


async def ask(engine: FakeEngine, path: str = PATH, **body: Any) -> tuple[int, Any]:  # noqa: ANN401
    response = await make(engine).test_client().post(path, json=body)
    return response.status_code, await response.get_json()


async def test_a_batch_is_read_in_slices_of_as_many_as_there_are_slots() -> None:
    engine = FakeEngine(lengths)
    status, answer = await ask(engine, input=[[1], [1, 2], [1, 2, 3], [4], [5]], normalize=False)
    assert status == 200
    assert [one["embedding"] for one in answer["data"]] == [[3, 4], [6, 8], [9, 12], [3, 4], [3, 4]]
    assert [one["index"] for one in answer["data"]] == [0, 1, 2, 3, 4]
    asked = [(await engine.next_request()).asked for _ in range(3)]
    assert [len(one.prompts) for one in asked] == [2, 2, 1]
    assert {(one.max_tokens, one.outputs) for one in asked} == {(0, PromptOutputs(Pooling.MEAN))}
    assert not any(one.reuses_kv for one in asked)
    assert len({one.id for one in asked}) == 3
    assert engine.openings == 3


async def test_vectors_have_the_length_1() -> None:
    _, answer = await ask(FakeEngine(lengths), input=[[1, 2]])
    assert answer["data"][0]["embedding"] == pytest.approx([0.6, 0.8])


async def test_ollama_normalises_at_one_endpoint_and_not_at_the_other() -> None:
    _, answer = await ask(FakeEngine(lengths), "/api/embed", input="a")
    assert answer["embeddings"] == [pytest.approx([0.6, 0.8])]
    _, answer = await ask(FakeEngine(lengths), "/api/embeddings", prompt="a")
    assert answer == {"embedding": [6, 8]}  # a BOS, and a byte


async def test_an_input_that_fails_ends_the_batch() -> None:
    engine = FakeEngine([Failed(1, StepFailed("no"))])
    status, answer = await ask(engine, input=[[1], [2], [3]])
    assert (status, answer["error"]["code"]) == (500, "step_failed")
    request = await engine.next_request()
    assert request.cancels == [CancelReason.FAULT]
    assert engine.openings == 1


async def test_an_operators_cancel_is_an_error() -> None:
    engine = FakeEngine([replace(finished(0, FinishReason.CANCELLED), cancelled=CancelReason.OPERATOR)])
    status, answer = await ask(engine, input="a")
    assert (status, answer["error"]["message"]) == (500, "the request was cancelled: operator")


async def test_a_hang_up_cancels_the_slice_that_runs() -> None:
    engine = FakeEngine()
    async with posting(make(engine), PATH, {"input": ["a", "b", "c"]}) as connection:
        request = await engine.next_request()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT
    assert engine.openings == 1


def test_a_server_without_embeddings_says_so() -> None:
    with pytest.raises(RequestError, match="--pooling none"):
        pooling_of(model(pooling=None))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_others_have_their_turn_between_any_few_vectors(normalize: bool, encoding: str) -> None:
    turn = 0
    read_in: dict[int, set[int]] = {}  # the vectors that were read in each turn of a neighbour's

    class Noticed(array):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[float]:
            read_in.setdefault(turn, set()).add(id(self))
            return super().__iter__()

        def tobytes(self) -> bytes:
            read_in.setdefault(turn, set()).add(id(self))
            return super().tobytes()

    made = [Noticed("f", [1.0] * 1024) for _ in range(128)]
    unused = iter(made)

    async def script(request: FakeRequest) -> None:
        for index in range(len(request.asked.prompts)):
            request.emit(replace(finished(index, FinishReason.LENGTH, tokens=0), vector=next(unused)))

    async def neighbour() -> None:
        nonlocal turn
        while True:
            await trio.lowlevel.checkpoint()
            turn += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        body = {"input": [[1]] * len(made), "normalize": normalize, "encoding_format": encoding}
        async with posting(make(FakeEngine(script)), PATH, body) as connection:
            answer = json.loads(await connection.receive_all())
        nursery.cancel_scope.cancel()
    assert len(answer["data"]) == len(made)
    assert set.union(*read_in.values()) == set(map(id, made))
    assert max(map(len, read_in.values())) <= 16
