"""The kernels of a tile, each against the textbook, and which of them is chosen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from runtime.checkpoint.families.scales import Scales
from runtime.nn.layers import tiles
from runtime.nn.layers.attention import TILE, attend, first_visible, step_mask
from runtime.nn.layers.tiles import choose_tile_kernel, matmul_tile, sdpa_tile, sink_tile, softcap_tile
from tests.models.layers.textbook import DIM, PAST, chunk_of, textbook
from tests.models.step_driver import CPU
from tests.rows import every_row


@every_row("window", [None, 1, 4, 100])
@every_row("start, rows", [(0, 2), (5, 2), (17, 20), (0, 40), (PAST, TILE + 3)])
def test_products_are_the_textbook_s(
    start: int, rows: int, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "MIN_MATMUL_LOGITS", 0)
    generator = torch.Generator().manual_seed(4)
    query = torch.randn(rows, 4, DIM, generator=generator)
    keys, values = torch.randn(2, 2, start + rows, DIM, generator=generator)
    seen = slice(first_visible(chunk_of(start, rows), window), start + rows)
    mask = step_mask([chunk_of(start, rows)], window, 2, CPU, torch.float32)
    attended = attend(query, keys[:, seen], values[:, seen], mask, matmul_tile)
    torch.testing.assert_close(attended, textbook(query, keys, values, start, window), atol=1e-5, rtol=1e-5)


def test_products_lose_no_more_to_rounding_than_the_fused_kernel_where_scores_are_large() -> None:
    """Scores about 40 are a quarter apart in bfloat16; here they differ by less than that from key to key."""
    generator = torch.Generator().manual_seed(5)
    common = torch.randn(64, generator=generator)
    query = (common * 4 + torch.randn(64, 2, 64, generator=generator) * 0.1).bfloat16()
    keys = (common + torch.randn(1, 1024, 64, generator=generator) * 0.1).bfloat16()
    values = torch.randn(1, 1024, 64, generator=generator).bfloat16()
    mask = step_mask([chunk_of(960, 64)], None, 2, CPU, torch.bfloat16)
    assert mask is not None
    assert mask.numel() >= tiles.MIN_MATMUL_LOGITS
    exact = textbook(query, keys, values, 960, None)
    lost = {kernel: (attend(query, keys, values, mask, kernel) - exact).norm() for kernel in (sdpa_tile, matmul_tile)}
    assert lost[matmul_tile] < 1.5 * lost[sdpa_tile]


@every_row("window", [None, 1, 4, 100])
@every_row("start, rows", [(0, 1), (17, 1), (17, 20), (0, 40), (PAST, TILE + 3)])
@every_row("scale", [0.02, 3.0])
@every_row("kernel", [sdpa_tile, matmul_tile, softcap_tile])
def test_scales_and_caps_are_the_textbook_s(
    kernel: Callable[..., torch.Tensor],
    scale: float,
    start: int,
    rows: int,
    window: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiles, "MIN_MATMUL_LOGITS", 0)
    caps: dict[str, Any] = {"softcap": 2.0} if kernel is softcap_tile else {}
    generator = torch.Generator().manual_seed(6)
    query = torch.randn(rows, 4, DIM, generator=generator)
    keys, values = torch.randn(2, 2, start + rows, DIM, generator=generator)
    seen = slice(first_visible(chunk_of(start, rows), window), start + rows)
    mask = step_mask([chunk_of(start, rows)], window, 2, CPU, torch.float32)
    attended = attend(query, keys[:, seen], values[:, seen], mask, partial(kernel, scale=scale, **caps))
    expected = textbook(query, keys, values, start, window, scale=scale, **caps)
    torch.testing.assert_close(attended, expected, atol=1e-5, rtol=1e-5)


@every_row("window", [None, 4])
@every_row("start, rows", [(0, 1), (17, 1), (17, 20), (PAST, TILE + 3)])
@every_row("scale", [None, 3.0])
def test_sinks_are_the_textbook_s(scale: float | None, start: int, rows: int, window: int | None) -> None:
    """A score for each query head that has no value; some are larger than those of all keys."""
    generator = torch.Generator().manual_seed(7)
    query = torch.randn(rows, 4, DIM, generator=generator)
    keys, values = torch.randn(2, 2, start + rows, DIM, generator=generator)
    sinks = torch.tensor([-2.0, 0.0, 1.5, 8.0])
    seen = slice(first_visible(chunk_of(start, rows), window), start + rows)
    mask = step_mask([chunk_of(start, rows)], window, 2, CPU, torch.float32)
    attended = attend(query, keys[:, seen], values[:, seen], mask, partial(sink_tile, sinks=sinks, scale=scale))
    expected = textbook(query, keys, values, start, window, scale=scale, sinks=sinks)
    torch.testing.assert_close(attended, expected, atol=1e-5, rtol=1e-5)


# --- which one ----------------------------------------------------------------------------------------------------


def _chosen(dtype: torch.dtype, softcap: float | None = None) -> tuple[object, dict[str, float]]:
    kernel = choose_tile_kernel(CPU, dtype, Scales(0.5, attention_softcap=softcap))
    assert isinstance(kernel, partial)
    return kernel.func, kernel.keywords


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_products_are_for_bfloat16(dtype: torch.dtype) -> None:
    assert _chosen(dtype) == (sdpa_tile, {"scale": 0.5})


def test_products_are_where_the_fused_kernel_s_are_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "has_bfloat16_products", lambda device: True)
    monkeypatch.setattr(tiles, "processor_name", lambda: "AMD EPYC 9354P 32-Core Processor")
    assert _chosen(torch.bfloat16) == (matmul_tile, {"scale": 0.5})
    monkeypatch.setattr(tiles, "processor_name", lambda: "Intel(R) Xeon(R) Platinum 8481C")
    assert _chosen(torch.bfloat16) == (sdpa_tile, {"scale": 0.5})


def test_caps_have_a_kernel_of_their_own() -> None:
    assert _chosen(torch.bfloat16, softcap=50.0) == (softcap_tile, {"scale": 0.5, "softcap": 50.0})


def test_sinks_have_a_kernel_of_their_own() -> None:
    sinks = torch.zeros(4)
    kernel = choose_tile_kernel(CPU, torch.bfloat16, Scales(0.5), sinks)
    assert isinstance(kernel, partial)
    assert (kernel.func, kernel.keywords) == (sink_tile, {"sinks": sinks, "scale": 0.5})
