"""What a client gets of a deterministic engine does not depend on company, hang-ups, drafts or kept KV.

Its rows are rounded to bfloat16, where one more row in a step of PyTorch's would change some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.engine import Engine
from runtime.devices.native.kernels import Kernels, KernelsMissing
from runtime.loading import few_rows
from runtime.loading.served import Proposer
from runtime.nn.matrices.quantization import Quantization
from runtime.sampling.params import SamplingParams
from runtime.store.resolve import resolve_model
from tests.models.step_driver import random_tokens
from tests.scenarios.families.engines import GREEDY, Answer, ask, open_family
from tests.unit.runtime.devices.native.building import SOURCE, build

EMBEDDED = resolve_model(None)
PROMPTS = [random_tokens(length, below=256, seed=length) for length in (5, 40, 90, 140)]
TOKENS = 24
SAMPLINGS = [GREEDY, SamplingParams(temperature=1.0, seed=7)]
CHUNK = 100  # more rows than the kernels take at once, and than PyTorch would leave to them
FORMS = [Quantization.NONE, Quantization.INT8]


@dataclass(frozen=True)
class Asked:
    """A client: what it asks for, when it comes, and after how many tokens it leaves; None where it stays."""

    prompt: int
    sampling: int
    arrives: int
    leaves: int | None


clients = st.builds(
    Asked,
    prompt=st.integers(0, len(PROMPTS) - 1),
    sampling=st.integers(0, len(SAMPLINGS) - 1),
    arrives=st.integers(0, 30),
    leaves=st.none() | st.integers(1, TOKENS - 1),
)


def deterministic(quantize: Quantization, **options: Any) -> Any:  # noqa: ANN401
    """An engine over the embedded model."""
    return open_family(EMBEDDED, dtype="bfloat16", quantize=quantize, deterministic="on", chunk=CHUNK, **options)


async def answer(engine: Engine, name: str, asked: Asked) -> Answer:
    """Return what the client gets."""
    for _ in range(asked.arrives):
        await trio.lowlevel.checkpoint()
    prompt, sampling = PROMPTS[asked.prompt], SAMPLINGS[asked.sampling]
    return await ask(engine, name, prompt, TOKENS, hang_up_after=asked.leaves, sampling=sampling)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Iterator[None]:
    """Kernels that were built of this tree, also where the tree has no library of its own."""
    library = build(SOURCE / "layer.cpp", "-O3", "-shared", "-fPIC")
    try:
        Kernels(library, threads=1)
    except KernelsMissing as why:
        pytest.skip(str(why))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_rows, "open_kernels", partial(Kernels, library))
        yield


@pytest.fixture(scope="module", params=FORMS, ids=str)
def quantize(request: pytest.FixtureRequest) -> Quantization:
    """The form of the weights."""
    form: Quantization = request.param
    return form


@pytest.fixture(scope="module")
def solo(quantize: Quantization, kernels: None) -> dict[tuple[int, int], list[int]]:
    """Return what each client gets that has an engine to itself, by prompt and sampling."""

    async def each() -> dict[tuple[int, int], list[int]]:
        said = {}
        for prompt in range(len(PROMPTS)):
            for sampling in range(len(SAMPLINGS)):
                async with deterministic(quantize) as engine:
                    said[prompt, sampling] = (await answer(engine, "alone", Asked(prompt, sampling, 0, None))).tokens
        return said

    return trio.run(each)


@settings(max_examples=12)
@given(
    asked=st.lists(clients, min_size=2, max_size=6),
    speculate=st.sampled_from([Proposer.OFF, Proposer.NGRAM, Proposer.MTP]),
)
def test_whoever_else_is_served(
    quantize: Quantization, solo: dict[tuple[int, int], list[int]], asked: list[Asked], speculate: Proposer
) -> None:
    got: dict[int, Answer] = {}

    async def scenario() -> None:
        async with deterministic(quantize, slots=3, speculate=speculate) as engine, trio.open_nursery() as nursery:

            async def client(place: int) -> None:
                got[place] = await answer(engine, f"client {place}", asked[place])

            for place in range(len(asked)):
                nursery.start_soon(client, place)

    trio.run(scenario)
    for place, own in enumerate(asked):
        assert got[place].tokens == solo[own.prompt, own.sampling][: own.leaves], place
