"""Kernels that compute attention of a tile: some rows, all heads, all keys that any of these rows sees.

A kernel takes `query [1, kv_heads, rows * group, head_dim]`, `keys` and `values [1, kv_heads, length, head_dim]`, and a
mask `[rows * group, length]` or None where every row sees all keys.  It returns the shape of the query.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.common.processor import processor_name
from runtime.nn.matrices.linear import has_bfloat16_products

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.families.scales import Scales

# Smaller tiles, in logits of a KV head, are left to PyTorch's kernel by `matmul_tile`: it is as fast for them.
MIN_MATMUL_LOGITS = 2**16
# Every so many keys, one tells `matmul_tile` how large a row's logits get.
ESTIMATE_STRIDE = 32

TileKernel: TypeAlias = "Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]"


def sdpa_tile(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, scale: float | None = None
) -> Tensor:
    """Compute a tile in PyTorch's own kernel.

    Args:
        query: as above, and so are the next three.
        keys: see there.
        values: see there.
        mask: see there.
        scale: of the scores; None for that of the textbook, 1 / sqrt(head_dim).
    """
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scale)


def matmul_tile(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, scale: float | None = None
) -> Tensor:
    """Compute a tile in matrix products, one KV head after the other, so that logits stay in the cache.

    A product rounds logits to the dtype.  Numbers near zero are rounded the least, so an estimate of each row's largest
    logit is subtracted within the product: without it the distance from the float32 model grows by half (bench/LOG.md).
    Small tiles are computed as by `sdpa_tile`, whose arguments these are.
    """
    if mask is None or mask.numel() < MIN_MATMUL_LOGITS:
        return sdpa_tile(query, keys, values, mask, scale=scale)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    query, keys, values = query[0], keys[0], values[0]
    largest = torch.bmm(query, keys[:, ::ESTIMATE_STRIDE].mT).amax(dim=-1, keepdim=True).mul_(scale)
    heads = []
    for own, key, value, top in zip(query, keys, values, largest, strict=True):
        logits = torch.addmm(mask - top, own, key.t(), alpha=scale)  # [rows * group, length]
        heads.append(torch.mm(torch.softmax(logits, dim=-1), value))
    return torch.stack(heads).unsqueeze(0)


def softcap_tile(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, scale: float, softcap: float
) -> Tensor:
    """Compute a tile whose scores are drawn towards `softcap` from either side, which PyTorch's kernel cannot.

    Args:
        query: as above, and so are the next three.
        keys: see there.
        values: see there.
        mask: see there; it is added to capped scores.
        scale: of the scores, before they are capped.
        softcap: what no score exceeds (Gemma 2, arXiv 2408.00118, section 2).
    """
    scores = torch.bmm(query[0], keys[0].mT).float()  # [kv_heads, rows * group, length]
    scores = scores.mul_(scale / softcap).tanh_().mul_(softcap)
    if mask is not None:
        scores = scores.add_(mask)
    return torch.bmm(torch.softmax(scores, dim=-1).to(values.dtype), values[0]).unsqueeze(0)


def sink_tile(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, sinks: Tensor, scale: float | None = None
) -> Tensor:
    """Compute a tile whose rows may attend to nothing: each head has a sink, a score for it that is learnt.

    A row's scores are those of its keys and the sink's; the latter has no value, so it only takes weight away (gpt-oss;
    Xiao et al., arXiv 2309.17453).  The KV heads are taken one after the other, as by `matmul_tile`.

    Args:
        query: as above, and so are the next three.
        keys: see there.
        values: see there.
        mask: see there.
        sinks: of all query heads, `[heads]`.
        scale: of the scores; None for that of the textbook.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    query, keys, values = query[0], keys[0], values[0]
    kv_heads, rows, _ = query.shape
    own_sinks = sinks.float().view(kv_heads, 1, -1, 1).expand(-1, rows * kv_heads // len(sinks), -1, -1)
    heads = []
    for own, key, value, sink in zip(query, keys, values, own_sinks.reshape(kv_heads, rows, 1), strict=True):
        scores = torch.mm(own, key.t()).float().mul_(scale)  # [rows * group, length]
        scores = torch.cat((scores if mask is None else scores.add_(mask), sink), dim=1)
        weights = torch.softmax(scores, dim=-1).narrow(1, 0, key.shape[0])
        heads.append(torch.mm(weights.to(value.dtype), value))
    return torch.stack(heads).unsqueeze(0)


def choose_tile_kernel(
    device: torch.device, dtype: torch.dtype, scales: Scales, sinks: Tensor | None = None
) -> TileKernel:
    """Choose the fastest tile kernel on this machine that computes with these scales, and sinks of all query heads.

    PyTorch's kernel takes its bfloat16 products from MKL, which computes them in float32 unless the processor is
    Intel's; oneDNN uses what AMD's have.  From 1000 positions on a chunk then takes half the time (bench/LOG.md).
    """
    if sinks is not None:
        return partial(sink_tile, sinks=sinks, scale=scales.attention)
    if scales.attention_softcap is not None:
        return partial(softcap_tile, scale=scales.attention, softcap=scales.attention_softcap)
    if dtype == torch.bfloat16 and has_bfloat16_products(device) and "AMD" in processor_name():
        return partial(matmul_tile, scale=scales.attention)
    return partial(sdpa_tile, scale=scales.attention)
