"""Metal's kernels: when they are used, and what is launched.  What they compute is looked at in `single_rows`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.checkpoint.config import parse_config
from runtime.devices.mps.rows import MetalRows, open_rows, source_of
from runtime.devices.single_rows.rows import RowTable, Scoring, table_numbers
from runtime.kv.pages import PageTable
from runtime.step.step import Segment
from tests.fakes.devices.metal.source import Kind, kernels_of
from tests.models.layers.native_models import CPU, LLAMA

if TYPE_CHECKING:
    from tests.fakes.devices.metal.compiled import Library, Shim

CONFIG = parse_config(LLAMA)
PLAIN = Scoring(0.2, None, None, None)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "cede.model")
    return caplog


def test_kernels_that_agree_with_pytorch_are_used(
    shim: Shim, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.mps, "compile_shader", shim)
    assert isinstance(open_rows(CONFIG, CPU, torch.bfloat16), MetalRows)
    (line,) = log.messages
    assert line.startswith("attention of few rows by Metal kernels, which differ from PyTorch's by ")


def test_kernels_that_do_not_agree_are_not_used(
    shim: Shim, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_shader(source: str) -> Library:
        return shim(source.replace("top = largest;", "", 1))

    monkeypatch.setattr(torch.mps, "compile_shader", compile_shader)
    assert open_rows(CONFIG, CPU, torch.float32) is None
    (line,) = log.messages
    assert line.startswith("no Metal kernels for attention of few rows: they differ from PyTorch's operations by ")


def test_a_source_that_is_not_compiled_is_not_used(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in this build of PyTorch, and as PyTorch says it on a Mac."""

    def compile_shader(source: str) -> Library:
        raise SyntaxError("failed to compile:\nprogram_source:7: no type named 'bfloat'")

    assert open_rows(CONFIG, CPU, torch.float32) is None
    monkeypatch.setattr(torch.mps, "compile_shader", compile_shader)
    assert open_rows(CONFIG, CPU, torch.float32) is None
    first, second = log.messages
    assert first == "no Metal kernels for attention of few rows: MPS is not available"
    assert second.endswith(": failed to compile: program_source:7: no type named 'bfloat'")


@pytest.mark.parametrize(("dim", "why"), [(264, "heads of 264 numbers"), (36, "heads of 36 numbers")])
def test_a_model_that_they_do_not_have_is_named(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, dim: int, why: str
) -> None:
    monkeypatch.setattr(torch.mps, "compile_shader", lambda source: pytest.fail("it was compiled"))
    assert open_rows(replace(CONFIG, head_dim=dim), CPU, torch.float32) is None
    assert log.messages == [f"no Metal kernels for attention of few rows: {why}"]


@pytest.mark.parametrize(
    ("longest", "window", "rows", "launched"),
    [
        (64, None, 1, ["attend_rows"]),
        (65, None, 1, ["attend_rows", "join_splits"]),
        (400, 64, 1, ["attend_rows"]),
        (400, None, 50, ["attend_rows"]),  # they keep a GPU busy
        (None, None, 1, ["attend_rows", "join_splits"]),  # the host does not know
        (None, 60, 1, ["attend_rows"]),
    ],
)
def test_keys_are_cut_where_there_are_many_for_few_rows(
    shim: Shim, longest: int | None, window: int | None, rows: int, launched: list[str]
) -> None:
    kernels = MetalRows(shim, torch.float32, 8)
    numbers = table_numbers([Segment(0, 0, [1], pages=PageTable((0,)))], rows)
    shim.launched.clear()
    table = RowTable(torch.tensor(numbers).view(-1, rows), longest)
    scoring = replace(PLAIN, window=window)
    kernels.attend(torch.randn(rows, 6, 8), 2, torch.randn(2, 2, 500, 8), None, table, scoring)
    assert shim.launched == launched


def test_rows_and_kv_may_lie_anywhere(shim: Shim) -> None:
    """Parts of wider tensors, and KV of which parts lie beyond what 32 bits count."""
    kernels = MetalRows(shim, torch.float16, 8)
    far = 2**31 + 5
    layer = torch.empty(far + 128, dtype=torch.float16).as_strided((2, 1, 16, 8), (far, 128, 8, 1))
    table = RowTable(
        torch.tensor(table_numbers([Segment(0, 3, [1], first=3, pages=PageTable((0,)))], 1)).view(-1, 1), 4
    )
    given = torch.randn(1, 4, 8).half()
    kernels.write(given.narrow(1, 2, 2).view(1, 2, 1, 8), layer, None, table)
    assert torch.equal(layer[:, 0, 3], given[0, 2:])
    own = kernels.attend(given.narrow(1, 0, 2), 1, layer, None, table, PLAIN)
    assert torch.equal(own.view(2, 8), given[0, 3].expand(2, 8))


def test_the_source_s_parameters_are_those_that_a_launch_gives() -> None:
    kernels = kernels_of(source_of(torch.bfloat16, 8))
    assert list(kernels) == ["write_rows", "attend_rows", "join_splits"]
    first = kernels["attend_rows"].parameters[0]
    assert (first.kind, first.type, first.name) == (Kind.POINTER, "bfloat", "query")
