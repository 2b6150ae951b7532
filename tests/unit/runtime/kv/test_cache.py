"""Rows of a sequence: kernels find them where its views are."""

from __future__ import annotations

import torch

from runtime.checkpoint.config import parse_config
from runtime.kv.cache import KVCache
from runtime.kv.rings import plan_rings
from tests.models.layers.native_models import CONTEXT, CPU, GEMMA3, LLAMA, SLACK, SLOTS


def test_addresses_are_those_of_the_views() -> None:
    """In the arena and in rings, of every slot, for either dtype; a ring that ends between two positions has copies."""
    for settings in (LLAMA, GEMMA3):
        config = parse_config({name: value for name, value in settings.items() if value is not None})
        rings = plan_rings(config.window, CONTEXT, slack=SLACK)
        for dtype in (torch.float32, torch.bfloat16):
            kv = KVCache(config, slots=SLOTS, context=CONTEXT, device=CPU, dtype=dtype, rings=rings)
            seen = 0
            for layer in range(config.num_layers):
                for slot in range(SLOTS):
                    for start in range(0, CONTEXT - 5, 7):
                        if not kv.is_whole(layer, start, start + 5):
                            continue
                        keys, values = kv.read(layer, slot, start, start + 5, slot * CONTEXT)
                        expected = keys.data_ptr(), values.data_ptr(), keys.stride(0)
                        assert kv.addresses(layer, slot, start, slot * CONTEXT) == expected
                        seen += 1
            assert seen > config.num_layers * SLOTS * 20
