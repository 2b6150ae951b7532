"""Blocks of keys and values, and the keys that name them by content.

A key is the hash of (parent key, the block's tokens), so it names every token from the start of the sequence, and the
root's key stands for the model: no table maps a key to tokens, so none can disagree with what a block holds (DESIGN.md,
section 5).  Torch is not imported, so that the command line may use the keys without it.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

BLOCK_TOKENS = 64
LAYOUT_VERSION = 1  # of `Block.data`; raised whenever the same tokens would give other rows, also by a mended fault

BlockKey = bytes  # 32 bytes, SHA-256
KEY_BYTES = 32

_TOKENS = struct.Struct(f"<{BLOCK_TOKENS}I")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The keys and values of `BLOCK_TOKENS` tokens at one place of one sequence.  Immutable, the tensor too.

    A preempted sequence's last tokens are one, too, fewer than that and under a key of their own (`tail_key`).  So is
    the *state* of recurrent layers behind a block, which has no tokens, and that block as its parent (`state_key`).
    It is `whole` if it has the rows of all layers: those of layers with rings were perhaps gone when it was saved; and
    `private` if it was computed for a request that wanted no reuse.
    """

    key: BlockKey
    parent: BlockKey
    token_ids: tuple[int, ...]
    data: torch.Tensor  # [pieces, parts, kv_heads, BLOCK_TOKENS, dim], CPU, contiguous; a state's bytes are uint8
    whole: bool = True
    private: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values, or of the state."""
        return self.data.nbytes

    @property
    def is_state(self) -> bool:
        """Return whether it is the state behind its parent."""
        return not self.token_ids


def root_key(
    *,
    fingerprint: str,
    dtype: str,
    kv_shape: tuple[int, ...],
    quantization: str | None = None,
    rope_factors: str | None = None,
    ringed: Sequence[int] = (),
    state_bytes: int = 0,
    deterministic: bool = False,
) -> BlockKey:
    """Return the parent of every sequence's first block: what the rows depend on besides the tokens.

    `fingerprint` is `Checkpoint.fingerprint`'s, which covers weights and config, rope settings included;
    `quantization` is what was made of those weights, `rope_factors` what `ModelConfig.rope_factors` returned, `ringed`
    are the layers whose rows a block may lack, `state_bytes` those of a state of recurrent layers, and `deterministic`
    says that not a bit depends on what else was computed with them.
    """
    parts = ["cede kv", str(LAYOUT_VERSION), str(BLOCK_TOKENS), fingerprint, dtype, repr(tuple(kv_shape))]
    if quantization is not None:
        parts.append(quantization)
    if rope_factors is not None:
        parts.append(f"rope {rope_factors}")
    if ringed:
        parts.append(f"rings {list(ringed)}")
    if state_bytes:
        parts.append(f"states {state_bytes}")
    if deterministic:
        parts.append("deterministic")
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)  # no two lists of parts run together alike
    return digest.digest()


def owner_root(root: BlockKey, owner: str) -> BlockKey:
    """Return the parent of the first blocks of one owner's sequences, where owners share no KV.

    No block's key is made like it: a block's is the digest of a key and tokens, whose bytes are of another number.
    """
    return hashlib.sha256(root + b"cede owner " + owner.encode()).digest()


def block_key(parent: BlockKey, token_ids: Sequence[int]) -> BlockKey:
    """Return the key of the block of exactly `BLOCK_TOKENS` tokens that follows `parent`."""
    return hashlib.sha256(parent + _TOKENS.pack(*token_ids)).digest()


def tail_key(parent: BlockKey, token_ids: Sequence[int], preemption: int) -> BlockKey:
    """Return the key of the fewer tokens than a block's that follow `parent`, at a preempted sequence's end.

    No other sequence has it, since each preemption has its number: no name would tell which of several blocks that
    begin with these tokens was computed on them.
    """
    packed = struct.pack(f"<Q{len(token_ids)}I", preemption, *token_ids)
    return hashlib.sha256(parent + b"tail" + packed).digest()


def state_key(block: BlockKey) -> BlockKey:
    """Return the key of the state that recurrent layers have behind a block; nothing else is named by as many bytes."""
    return hashlib.sha256(block + b"state").digest()


def block_keys(root: BlockKey, token_ids: Sequence[int]) -> list[BlockKey]:
    """Return one key for each complete block of a sequence from its start; an incomplete tail has none."""
    complete = len(token_ids) // BLOCK_TOKENS
    packed = struct.pack(f"<{complete * BLOCK_TOKENS}I", *token_ids[: complete * BLOCK_TOKENS])
    keys = []
    key = root
    for start in range(0, len(packed), _TOKENS.size):
        key = hashlib.sha256(key + packed[start : start + _TOKENS.size]).digest()
        keys.append(key)
    return keys
