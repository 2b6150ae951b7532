"""Pages in any order: what a sequence says does not depend on where they lie, and those that two have serve both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from runtime.devices.native.kernels import Kernels
from runtime.kv.pages import PageTable
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.step.step import Segment
from tests.models.checkpoints import FAMILIES
from tests.models.layers.native_models import CPU, GEMMA3, LLAMA, QWEN3_5, both, difference, run, segments_of
from tests.models.step_driver import Running, generate, open_transformer, random_tokens
from tests.models.step_driver import run as run_step

TABLES = {0: PageTable((9, 2, 3, 12)), 1: PageTable((0, 15, 1, 8)), 2: PageTable((7, 6, 5, 4))}
SHARING = {0: TABLES[0], 1: PageTable((9, 15, 1, 8))}  # the first page in common
MANY: list[dict[int, int]] = [{0: 61, 1: 63, 2: 20}, {0: 1, 1: 1, 2: 1}, {0: 5, 1: 3}, {1: 1, 2: 30}, {0: 65, 2: 16}]
FEW: list[dict[int, int]] = [{0: 16, 1: 15, 2: 5}] * 4 + [{0: 1, 1: 5, 2: 1}, {1: 3, 2: 9}]  # as rings bear
MODELS = {"llama": (LLAMA, MANY), "windows": (GEMMA3, FEW), "gated": (QWEN3_5, MANY)}


def scattered(segments: Sequence[Segment], tables: dict[int, PageTable] = TABLES) -> list[Segment]:
    """Return the same segments in other pages."""
    return [replace(segment, pages=tables[segment.slot]) for segment in segments]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_scattered_pages_give_what_pages_in_a_row_give(kernels: Kernels, name: str, dtype: torch.dtype) -> None:
    """By PyTorch's operations and by the kernels, in steps of few and many rows that cross the ends of pages."""
    formats = choose_formats(Quantization.NONE, CPU, dtype, kernels)
    settings, steps = MODELS[name]
    in_row, apart = (both(settings, dtype, kernels, formats) for _ in range(2))
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    torch.manual_seed(1)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in steps:
            segments = segments_of(step, lengths)
            for first, second in zip(in_row, apart, strict=True):
                expected, own = run(first, segments).hidden, run(second, scattered(segments)).hidden
                assert difference(own, expected) < tolerance, (step, first.native_layers)


@pytest.mark.parametrize("family", ["llama", "deepseek3"])
def test_two_go_on_behind_a_page_that_both_have(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp(family)
    FAMILIES[family](folder)
    model = open_transformer(folder, slots=4)
    prompt = random_tokens(64, below=200, seed=1)
    texts = [[*prompt, *random_tokens(9, below=200, seed=slot)] for slot in (2, 3)]
    expected = [generate(open_transformer(folder, slots=4), [Running(0, text)], 1)[0][0] for text in texts]
    run_step(model, scattered([Segment(0, 0, prompt)]))
    assert [_said(model, slot, text) for slot, text in enumerate(texts)] == expected


def _said(model: Transformer, slot: int, text: list[int]) -> int:
    """Return the first token behind a text of which the first page is there."""
    running = Running(slot, text, committed=64)
    (segment,) = scattered([running.next_segment()], SHARING)
    (result,) = run_step(model, [segment]).segments
    return result.tokens[0].token_id
