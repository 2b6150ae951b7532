"""Rows of a sequence: those of scattered pages are what they are in one piece, and kernels find them where they lie."""

from __future__ import annotations

from ctypes import c_int32

import pytest
import torch

from runtime.checkpoint.config import parse_config
from runtime.kv.cache import KVCache
from runtime.kv.pages import PAGE_TOKENS, PageTable, in_one_piece
from runtime.kv.rings import plan_rings
from tests.models.layers.native_models import CONTEXT, CPU, GEMMA3, LLAMA, SLACK, SLOTS
from tests.models.step_driver import pages_of

SCATTERED = PageTable((9, 2, 3, 7))
OTHER = PageTable((5, 12, 0, 14))


def cache(settings: dict[str, object] = LLAMA, dtype: torch.dtype = torch.float32) -> KVCache:
    """KV of a few slots, with small rings for layers with a window, full of what is no sequence's."""
    config = parse_config({name: value for name, value in settings.items() if value is not None})
    rings = plan_rings(config.window, CONTEXT, slack=SLACK)
    kv = KVCache(config, slots=SLOTS, context=CONTEXT, device=CPU, dtype=dtype, rings=rings)
    for layer in range(config.num_layers):
        kv.layer(layer)[0].fill_(-1)
    return kv


def rows_of(kv: KVCache, count: int) -> torch.Tensor:
    """Draw rows of a layer, `[parts, kv_heads, count, dim]`."""
    _, parts, kv_heads, dim = kv.row_shape
    return torch.randn(parts, kv_heads, count, dim, generator=torch.Generator().manual_seed(count)).to(kv.dtype)


@pytest.mark.parametrize("settings", [LLAMA, GEMMA3], ids=["llama", "gemma3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_addresses_are_those_of_the_views(settings: dict[str, object], dtype: torch.dtype) -> None:
    """In the pool and in rings, of every slot; a ring that ends between two positions has copies."""
    kv, seen = cache(settings, dtype), 0
    for layer in range(kv.row_shape[0]):
        for slot in range(SLOTS):
            pages = pages_of(slot, CONTEXT)
            for start in range(0, CONTEXT - 5, 7):
                if not kv.is_whole(layer, start, start + 5):
                    continue
                keys, values = kv.read(layer, slot, start, start + 5, pages)
                at = kv.addresses(layer, slot, start, pages)
                page, offset = divmod(at.first, PAGE_TOKENS)
                place = (c_int32 * CONTEXT).from_address(at.pages.address)[page] * PAGE_TOKENS + offset
                moved = place * keys.stride(1) * keys.itemsize
                assert (at.keys + moved, at.values + moved) == (keys.data_ptr(), values.data_ptr())
                assert at.head == keys.stride(0)
                seen += 1
    assert seen > kv.row_shape[0] * SLOTS * 20


@pytest.mark.parametrize(("start", "end"), [(0, 256), (63, 65), (64, 192), (100, 250), (255, 256)])
def test_rows_of_scattered_pages_are_what_was_written_and_nothing_else_is(start: int, end: int) -> None:
    kv = cache()
    given, before = rows_of(kv, end - start), kv.layer(0)[0].clone()
    kv.write(0, 0, start, given, SCATTERED)
    assert all(map(torch.equal, kv.read(0, 0, start, end, SCATTERED), given))
    for position in range(start, end):
        assert torch.equal(kv.layer(0)[0][:, :, SCATTERED.place(position)], given[:, :, position - start])
    untouched = torch.ones(kv.positions, dtype=torch.bool)
    untouched[SCATTERED.places(start, end)] = False
    assert torch.equal(kv.layer(0)[0][:, :, untouched], before[:, :, untouched])


def test_pages_one_behind_the_other_are_read_where_they_lie() -> None:
    kv = cache()
    first = kv.layer(0)[0]
    (keys, _) = kv.read(0, 0, 70, 190, SCATTERED)  # of pages 2 and 3
    assert keys.data_ptr() == first[0, 0, 2 * PAGE_TOKENS + 6].data_ptr()
    (copied, _) = kv.read(0, 0, 60, 70, SCATTERED)
    assert copied.untyped_storage().data_ptr() != first.untyped_storage().data_ptr()


@pytest.mark.parametrize("settings", [LLAMA, GEMMA3], ids=["llama", "gemma3"])
def test_what_is_saved_loaded_and_copied_is_the_same_wherever_it_lies(settings: dict[str, object]) -> None:
    kv, count = cache(settings), 150
    for layer in range(kv.row_shape[0]):
        kv.write(layer, 0, 0, rows_of(kv, count), SCATTERED)
    first = 0 if kv.rings is None else kv.rings.first_kept(kv.rings.least_length(count))
    saved = kv.save(0, first, count, SCATTERED)
    kv.load(1, first, saved, OTHER)
    assert torch.equal(kv.save(1, first, count, OTHER), saved)
    last = in_one_piece(CONTEXT, 16)
    kv.copy(1, 2, first, count, OTHER, last, least=count)
    own, copied = (kv.save(slot, first, count, pages, windows=False) for slot, pages in ((0, SCATTERED), (2, last)))
    assert torch.equal(copied, own)
    seen = first if kv.rings is None else kv.rings.first_needed(count)
    assert torch.equal(kv.read(0, 2, seen, count, last)[0], kv.read(0, 0, seen, count, SCATTERED)[0])


def test_a_page_is_copied_up_to_a_row_and_the_rest_stays_what_it_was() -> None:
    kv = cache()
    for layer in range(kv.row_shape[0]):
        kv.write(layer, 0, 0, rows_of(kv, 256), SCATTERED)
    source, target = SCATTERED.pages[1], 11
    kv.copy_page(source, target, 37)
    for layer in range(kv.row_shape[0]):
        pool = kv.layer(layer)[0]
        own, copied = (pool.narrow(2, page * PAGE_TOKENS, PAGE_TOKENS) for page in (source, target))
        assert torch.equal(copied[:, :, :37], own[:, :, :37])
        assert bool((copied[:, :, 37:] == -1).all())
