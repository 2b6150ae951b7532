"""Card of a model for the front door: how its conversations are written, its tokens, and its room for KV.

Dynamo reads this from a folder in the layout of Hugging Face checkpoints.  It is written here from what was loaded, so
a GGUF file has one, too.  Workers of one model have to name the same folder, so its name comes from what is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.loading.served import ServedModel


def card_files(model: ServedModel) -> dict[str, str]:
    """The files, by their names."""
    template = None if model.chat is None else model.chat.template
    config = {
        "architectures": ["cede"],
        "model_type": "cede",
        "max_position_embeddings": model.context_length,
        "vocab_size": model.vocab_size,
        "eos_token_id": list(model.eos_token_ids),
    }
    named = {} if template is None else dict(template.token_names)
    files = {
        "config.json": json.dumps(config),
        "generation_config.json": json.dumps({"eos_token_id": list(model.eos_token_ids)}),
        "tokenizer.json": model.tokenizer.to_json(),
        "tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | named),
    }
    return files if template is None else files | {"chat_template.jinja": template.source}


def kv_blocks(model: ServedModel, slots: int) -> int:
    """Return how many blocks of KV the slots have room for: fewer than all need at their longest, where they share."""
    positions = slots * model.context_length if model.positions is None else model.positions
    return positions // BLOCK_TOKENS


def write_card(files: Mapping[str, str], folder: Path | None = None) -> Path:
    """Write the files into a folder that is named for them, unless they are there; returns it.

    Args:
        files: as `card_files` makes them.
        folder: of all cards; None for one among the user's caches.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, text in sorted(files.items()):
        digest.update(f"{name}\0{len(text)}\0{text}".encode())
    cards = folder or platformdirs.user_cache_path("cede") / "cards"
    card = cards / digest.hexdigest()
    if card.is_dir():
        return card
    cards.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=cards))
    for name, text in files.items():
        (fresh / name).write_text(text, encoding="utf-8")
    try:
        os.rename(fresh, card)
    except OSError:  # another worker was quicker
        for name in files:
            (fresh / name).unlink()
        fresh.rmdir()
    return card
