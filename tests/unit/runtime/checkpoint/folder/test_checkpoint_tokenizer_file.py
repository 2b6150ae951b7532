"""What the tokenizers library cannot bear is refused by name; what it reads is read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from runtime.checkpoint.folder.checkpoint import read_tokenizer_file
from runtime.errors import CheckpointError
from tests.models.small_tokenizers import byte_level, llama2_style

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _unknown_in_template(description: dict[str, Any]) -> None:
    """Panics with each text."""
    description["post_processor"]["special_tokens"] = {}


def _prefix(description: dict[str, Any]) -> None:
    """Ends the process, where a merge's second token begins with a character of several bytes."""
    description["model"]["continuing_subword_prefix"] = "#"


def _no_unknown_token(description: dict[str, Any]) -> None:
    """Fails with a text that has a character of which there is no token."""
    description["model"]["unk_token"] = "<none>"


def _no_model(description: dict[str, Any]) -> None:
    description["model"] = None


def _other_type(description: dict[str, Any]) -> None:
    description["added_tokens"] = 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_unknown_in_template, "the tokenizers library fails with it: no entry found for key"),
        (_prefix, "continuing_subword_prefix is not supported in BPE"),
        (_no_unknown_token, "unk_token '<none>' is not in the vocabulary"),
        (_no_model, "is not a tokenizer's description: it has no model"),
        (_other_type, "cannot be read: invalid type: integer `3`"),
    ],
)
def test_what_the_library_cannot_work_with_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    description = json.loads(llama2_style().to_str())
    change(description)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"tokenizer\.json: {re.escape(message)}"):
        read_tokenizer_file(path)


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        read_tokenizer_file(path)


def test_truncation_and_padding_are_left_out(tmp_path: Path) -> None:
    description = json.loads(byte_level().to_str())
    fixed = {"strategy": {"Fixed": 1 << 40}, "direction": "Right", "pad_to_multiple_of": None}
    description["padding"] = {**fixed, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|bos|>"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(description), encoding="utf-8")
    ids = byte_level().encode("a text").ids
    assert read_tokenizer_file(path).encode("a text").ids == ids
