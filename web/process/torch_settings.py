"""Settings that the libraries below torch read from the environment, once: to be set before torch is imported."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

PRODUCT_CACHE = "128"
"""Entries of each of two caches.  oneDNN keeps the code that it made for products of a shape, and ideep, which stands
between it and torch, what it prepared of that: 0.7 MB for each number of rows and each matrix.  By default they keep
1024, so a server's memory grew with the variety of its prompts' lengths.  What one of them has let go, the other one
still holds.  A step takes about twenty, which its layers share; to make one takes a millisecond (bench/LOG.md)."""

CACHES = MappingProxyType(dict.fromkeys(("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"), PRODUCT_CACHE))
TORCH_SETTINGS = MappingProxyType(
    {
        # GNU OpenMP spins at its barriers, without end by default: with the event loop busy on one of two cores, a
        # small product went from 0.5 ms to 8 ms, a scheduler tick.  Too short a spin lets threads fall asleep between
        # products.  Where another program always keeps a core busy, 1000 is better (bench/LOG.md).
        "GOMP_SPINCOUNT": "10000",
        **CACHES,
        # A prompt is encoded in the thread that asks for it: a pool would have one on every core beside the device's.
        "TOKENIZERS_PARALLELISM": "false",
    }
)


def settle(environment: MutableMapping[str, str]) -> None:
    """Set what is not set."""
    for name, value in TORCH_SETTINGS.items():
        environment.setdefault(name, value)
