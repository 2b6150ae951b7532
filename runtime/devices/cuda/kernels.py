"""Kernels of Triton: KV of single rows, each at its own place, and attention of single rows over their sequences.

A row says by itself where its sequence lies and how far it sees (`runtime.devices.single_rows.rows.RowTable`), so the
rows of all sequences go into one launch, and nothing of a launch depends on what is in the rows.

Offsets and strides are in numbers, not bytes; what is in capitals is known when a kernel is compiled.  Imported only
where Triton is.
"""

# Triton's language is not Python's: its many arguments are pointers and numbers, and nothing is returned.
# ruff: noqa: ANN001, ANN201, N803
# mypy: disable-error-code="untyped-decorator, no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from runtime.kv.pages import PAGE_TOKENS

PAGE = tl.constexpr(PAGE_TOKENS)
NOTHING = tl.constexpr(-1e30)  # below any score, and finite: two of them may be subtracted


@triton.jit
def write_rows(
    new, new_row, new_part, new_head, kv, kv_part, kv_slot, kv_head, kv_row, table, rows, RING: tl.constexpr,
    DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Store the keys and values of one row and KV head; a row at place -1 is none.  Grid: rows, KV heads, parts."""
    row, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = tl.load(table + row)
    slot = tl.load(table + 3 * rows + row)
    at = place
    if RING > 0:
        at = tl.load(table + rows + row) % RING
    dims = tl.arange(0, BLOCK)
    mask = dims < tl.where(place >= 0, DIM, 0)
    given = tl.load(new + row * new_row + part * new_part + head * new_head + dims, mask=mask)
    tl.store(kv + part * kv_part + slot * kv_slot + head * kv_head + at * kv_row + dims, given, mask=mask)


@triton.jit
def attend_split(
    query, query_row, query_head, kv, kv_part, kv_slot, kv_head, kv_row, table, rows, sums, tops, totals,
    scale, cap, HAS_CAP: tl.constexpr, WINDOW: tl.constexpr, RING: tl.constexpr, GROUP: tl.constexpr,
    DIM: tl.constexpr, SPLITS: tl.constexpr, BLOCK_GROUP: tl.constexpr, BLOCK_DIM: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):  # fmt: skip
    """Attend from one row's heads of one KV head to one part of the keys.  Grid: rows, KV heads, splits.

    Leaves, for each head and split, the largest score (`tops`), the sum of the weights relative to it (`totals`), and
    the values weighted so (`sums`), as FlashAttention does (Dao et al., arXiv 2205.14135).
    """
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = tl.load(table + row)
    position = tl.load(table + rows + row)
    first = tl.load(table + 2 * rows + row)
    slot = tl.load(table + 3 * rows + row)
    end = tl.where(place >= 0, position + 1, 0)
    if WINDOW > 0:
        first = tl.maximum(first, end - WINDOW)
    blocks = tl.cdiv(tl.cdiv(tl.maximum(end - first, 0), BLOCK_KEYS), SPLITS)
    start = first + split * blocks * BLOCK_KEYS
    stop = tl.minimum(start + blocks * BLOCK_KEYS, end)

    heads = tl.arange(0, BLOCK_GROUP)
    dims = tl.arange(0, BLOCK_DIM)
    keys = tl.arange(0, BLOCK_KEYS)
    own = (heads < GROUP)[:, None] & (dims < DIM)[None, :]
    at_query = query + row * query_row + (head * GROUP + heads)[:, None] * query_head + dims[None, :]
    asked = tl.load(at_query, mask=own, other=0.0)
    base = kv + slot * kv_slot + head * kv_head
    top = tl.full([BLOCK_GROUP], NOTHING, tl.float32)
    total = tl.zeros([BLOCK_GROUP], tl.float32)
    summed = tl.zeros([BLOCK_GROUP, BLOCK_DIM], tl.float32)
    for begin in range(start, stop, BLOCK_KEYS):
        at = begin + keys
        seen = at < stop
        if RING > 0:
            places = at % RING
        else:
            page = tl.load(table + (4 + at // PAGE) * rows + row, mask=seen, other=0)
            places = page * PAGE + at % PAGE
        at_key = base + places[None, :] * kv_row + dims[:, None]
        key = tl.load(at_key, mask=seen[None, :] & (dims < DIM)[:, None], other=0.0)
        scores = tl.dot(asked, key, input_precision="ieee") * scale
        if HAS_CAP:
            scores = cap * (2.0 * tl.sigmoid(2.0 * scores / cap) - 1.0)  # the hyperbolic tangent
        scores = tl.where(seen[None, :], scores, NOTHING)
        largest = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp(top - largest)
        weights = tl.exp(scores - largest[:, None])
        at_value = base + kv_part + places[:, None] * kv_row + dims[None, :]
        value = tl.load(at_value, mask=seen[:, None] & (dims < DIM)[None, :], other=0.0)
        summed = summed * shrink[:, None] + tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        total = total * shrink + tl.sum(weights, 1)
        top = largest

    part = (row * tl.num_programs(1) + head) * GROUP * SPLITS + heads * SPLITS + split
    tl.store(tops + part, top, mask=heads < GROUP)
    tl.store(totals + part, total, mask=heads < GROUP)
    tl.store(sums + part[:, None] * DIM + dims[None, :], summed, mask=own)


@triton.jit
def join_splits(
    sums, tops, totals, sinks, output, HAS_SINKS: tl.constexpr, DIM: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):  # fmt: skip
    """Join what the splits of one head left; with a sink, which takes weight and has no value.  Grid: rows, heads."""
    row, head = tl.program_id(0), tl.program_id(1)
    splits = tl.arange(0, SPLITS)
    dims = tl.arange(0, BLOCK_DIM)
    first = (row * tl.num_programs(1) + head) * SPLITS
    top = tl.load(tops + first + splits)
    largest = tl.max(top, 0)
    if HAS_SINKS:
        sink = tl.load(sinks + head).to(tl.float32)
        largest = tl.maximum(largest, sink)
    weights = tl.exp(top - largest)
    total = tl.sum(tl.load(totals + first + splits) * weights, 0)
    if HAS_SINKS:
        total += tl.exp(sink - largest)
    parts = tl.load(sums + (first + splits)[:, None] * DIM + dims[None, :], mask=(dims < DIM)[None, :], other=0.0)
    summed = tl.sum(parts * weights[:, None], 0)
    result = summed / tl.where(total > 0, total, 1.0)  # a row that is none has seen nothing
    at = output + (row * tl.num_programs(1) + head) * DIM + dims
    tl.store(at, result.to(output.dtype.element_ty), mask=dims < DIM)
