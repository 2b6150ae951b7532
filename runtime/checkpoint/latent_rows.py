"""The rows of latent attention's projections, in the order in which one rotation serves all families."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.checkpoint.stored import SelectedRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.layer_config import LatentConfig
    from runtime.checkpoint.stored import StoredTensor

# Each ends with the numbers that are rotated: of every head, or of the key that all heads share.
_QUERIES = re.compile(r"\.self_attn\.(q_proj|q_b_proj)\.weight$")
_KEY = re.compile(r"\.self_attn\.kv_a_proj_with_mqa\.(weight|bias)$")


def order_rotated_rows(found: Mapping[str, StoredTensor], latent: LatentConfig) -> dict[str, StoredTensor]:
    """Return the tensors with those rows reordered whose outputs are rotated, if they lie interleaved.

    Queries and keys are reordered alike, so their products stay what they were.  A tensor of another size than
    `latent` says stays as it is, to be refused by its name.
    """
    if not latent.interleaved:
        return dict(found)
    ordered = dict(found)
    for name, tensor in found.items():
        if _QUERIES.search(name):
            plain = latent.plain_dim
        elif _KEY.search(name):
            plain = latent.rank
        else:
            continue
        width = plain + latent.rope_dim
        if tensor.shape and tensor.shape[0] % width == 0:
            order = [first + row for first in range(0, tensor.shape[0], width) for row in _order(plain, width)]
            ordered[name] = SelectedRows(tensor, order, tensor.shape)
    return ordered


def _order(plain: int, width: int) -> list[int]:
    """Return the rows of a head: those that are not rotated, then the first of each pair, then the second."""
    return [*range(plain), *range(plain, width, 2), *range(plain + 1, width, 2)]
