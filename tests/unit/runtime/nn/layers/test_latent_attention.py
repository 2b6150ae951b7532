"""Latent attention: what it stores is transformers' latent, and its two forms agree however they are cut."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from runtime.checkpoint.layer_config import LatentConfig
from runtime.nn.layers import latent_attention, tiles
from runtime.nn.layers.latent_attention import NEVER, least_expanded_rows
from runtime.nn.layers.tiles import matmul_tile
from runtime.step.step import Segment
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import open_transformer, pages_of, random_tokens, run

TEXTS = [random_tokens(length, below=256, seed=length) for length in (55, 6, 9)]  # by slot
RANK = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deepseek3")
    FAMILIES["deepseek3"](folder)
    return folder


def _stored(folder: Path) -> list[torch.Tensor]:
    """Return what is stored of each text, `[layers, 1, 1, tokens, RANK + 8]`, read in two steps of any segments."""
    model = open_transformer(folder)
    run(model, [Segment(0, 0, TEXTS[0][:30]), Segment(1, 0, TEXTS[1][:5])])
    run(model, [Segment(0, 30, TEXTS[0][30:]), Segment(1, 5, TEXTS[1][5:]), Segment(2, 0, TEXTS[2])])
    return [model.kv.save(slot, 0, len(text), pages_of(slot, model.context)) for slot, text in enumerate(TEXTS)]


@torch.inference_mode()
def _cached(reference: Any, text: list[int]) -> torch.Tensor:  # noqa: ANN401
    """Return what transformers caches of a text, as `_stored` has it: a latent for keys and one for what is rotated."""
    layers = reference(torch.tensor([text]), use_cache=True).past_key_values.layers
    return torch.stack([torch.cat((layer.keys, layer.values), dim=-1) for layer in layers])


def _assert_same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)


def test_what_is_stored_is_the_latent_and_the_rotated_part_of_the_key(folder: Path) -> None:
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = _stored(folder)
    assert found[0].shape == (3, 1, 1, 55, RANK + 8)
    _assert_same(found, [_cached(reference, text) for text in TEXTS])


def test_nothing_else_is_stored(folder: Path) -> None:
    """Four bytes a number, one vector a token and layer, whatever the heads would expand it to."""
    kv = open_transformer(folder, slots=2, context=64).kv
    assert kv.row_shape == (3, 1, 1, RANK + 8)
    assert kv.bytes_per_token == 3 * (RANK + 8) * 4
    assert kv.nbytes == 2 * 64 * kv.bytes_per_token


@pytest.mark.parametrize("least", [2, 7, 30, NEVER])
def test_both_forms_give_the_same(folder: Path, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _stored(folder)
    monkeypatch.setattr(latent_attention, "least_expanded_rows", lambda latent: least)
    _assert_same(_stored(folder), expected)


@pytest.mark.parametrize("numbers", [1, 2 * 20 * 55 * 3])
def test_heads_are_expanded_in_turns(folder: Path, numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time, or three of the four and then the last."""
    expected = _stored(folder)
    monkeypatch.setattr(latent_attention, "least_expanded_rows", lambda latent: 2)
    monkeypatch.setattr(latent_attention, "EXPANDED_NUMBERS", numbers)
    _assert_same(_stored(folder), expected)


@pytest.mark.parametrize("tile", [1, 4 * 7])
def test_rows_are_absorbed_in_tiles(folder: Path, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of four heads at a time, or seven of them."""
    expected = _stored(folder)
    monkeypatch.setattr(latent_attention, "least_expanded_rows", lambda latent: NEVER)
    monkeypatch.setattr(latent_attention, "ABSORBED_TILE", tile)
    _assert_same(_stored(folder), expected)


@pytest.mark.parametrize("least", [2, NEVER])
def test_products_of_matrices_give_the_same(folder: Path, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _stored(folder)
    monkeypatch.setattr(tiles, "MIN_MATMUL_LOGITS", 0)
    monkeypatch.setattr(
        latent_attention,
        "choose_tile_kernel",
        lambda device, dtype, scales: partial(matmul_tile, scale=scales.attention),
    )
    monkeypatch.setattr(latent_attention, "least_expanded_rows", lambda latent: least)
    _assert_same(_stored(folder), expected)


def _config(rank: int, plain: int, rope: int, value: int) -> LatentConfig:
    return LatentConfig(None, rank, plain, rope, value, scale=1.0, interleaved=True)


def test_a_chunk_is_expanded_where_that_takes_fewer_operations() -> None:
    deepseek = _config(512, 128, 64, 128)
    least = least_expanded_rows(deepseek)
    absorbed = 2 * (512 + 64)  # multiplications for a row, a key and a head: the logit, and the share of the sum
    expanded, expansion = 2 * (128 + 64), 512 * (128 + 128)
    assert least == math.ceil(expansion / (absorbed - expanded)) == 171


def test_a_latent_as_narrow_as_a_query_is_never_expanded() -> None:
    assert least_expanded_rows(_config(8, 12, 8, 16)) == NEVER
