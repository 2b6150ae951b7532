"""Keys of blocks: what they depend on, and that nothing else matters."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.kv.blocks import BLOCK_TOKENS, Block, block_key, block_keys, root_key

ROOT = root_key(fingerprint="f" * 64, dtype="float32", kv_shape=(2, 2, 1, BLOCK_TOKENS, 4))
token_lists = st.lists(st.integers(0, 2**32 - 1), max_size=5 * BLOCK_TOKENS)


@given(token_lists)
def test_a_key_is_the_hash_of_its_parent_and_its_tokens(tokens: list[int]) -> None:
    keys = block_keys(ROOT, tokens)
    assert len(keys) == len(tokens) // BLOCK_TOKENS
    parent = ROOT
    for index, key in enumerate(keys):
        part = tokens[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
        assert key == block_key(parent, part)
        assert key == hashlib.sha256(parent + b"".join(struct.pack("<I", token) for token in part)).digest()
        parent = key


@given(token_lists, token_lists)
def test_keys_agree_exactly_as_far_as_the_tokens_do(one: list[int], other: list[int]) -> None:
    pairs = zip(block_keys(ROOT, one), block_keys(ROOT, other), strict=False)
    for index, (left, right) in enumerate(pairs):
        end = (index + 1) * BLOCK_TOKENS
        assert (left == right) == (one[:end] == other[:end])


def test_a_changed_token_changes_its_own_block_and_all_after_it() -> None:
    tokens = list(range(4 * BLOCK_TOKENS))
    keys = block_keys(ROOT, tokens)
    tokens[BLOCK_TOKENS] += 1
    changed = block_keys(ROOT, tokens)
    assert [left == right for left, right in zip(keys, changed, strict=True)] == [True, False, False, False]


def test_the_root_depends_on_the_model_the_dtype_the_shape_and_the_rope_s_factors() -> None:
    roots = {
        ROOT,
        root_key(fingerprint="e" * 64, dtype="float32", kv_shape=(2, 2, 1, BLOCK_TOKENS, 4)),
        root_key(fingerprint="f" * 64, dtype="bfloat16", kv_shape=(2, 2, 1, BLOCK_TOKENS, 4)),
        root_key(fingerprint="f" * 64, dtype="float32", kv_shape=(2, 2, 4, BLOCK_TOKENS, 1)),
        root_key(fingerprint="f" * 64, dtype="float32", kv_shape=(2, 2, 1, BLOCK_TOKENS, 4), deterministic=True),
        *(
            root_key(fingerprint="f" * 64, dtype="float32", kv_shape=(2, 2, 1, BLOCK_TOKENS, 4), rope_factors=factors)
            for factors in ("short", "long")
        ),
    }
    assert len(roots) == 7
    assert {len(root) for root in roots} == {32}


@pytest.mark.parametrize("token", [-1, 2**32])
def test_a_token_that_does_not_fit_is_refused(token: int) -> None:
    with pytest.raises(struct.error):
        block_keys(ROOT, [token] * BLOCK_TOKENS)


def test_a_block_knows_its_size_and_is_itself_alone() -> None:
    tokens = tuple(range(BLOCK_TOKENS))
    data = torch.zeros(2, 2, 1, BLOCK_TOKENS, 4)
    block = Block(block_key(ROOT, tokens), ROOT, tokens, data)
    assert block.nbytes == 2 * 2 * BLOCK_TOKENS * 4 * 4
    assert block != Block(block.key, ROOT, tokens, data)
    with pytest.raises(AttributeError):
        block.key = b""  # type: ignore[misc]


@pytest.mark.parametrize(
    "module", ["runtime.kv.blocks", "runtime.kv.index", "runtime.kv.disk.files", "runtime.kv.disk.folder"]
)
def test_the_command_line_may_import_it_without_torch(module: str) -> None:
    check = f"import sys, {module}; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
