"""Card of a model, as the front door is told it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import tokenizers

from runtime.kv.blocks import BLOCK_TOKENS
from runtime.loading.load import describe_model
from runtime.loading.options import LoadOptions
from runtime.store.resolve import resolve_model
from web.cluster.card import card_files, kv_blocks, write_card


def embedded_files() -> dict[str, str]:
    served, _ = describe_model(LoadOptions(resolve_model(None, None)), "embedded")
    return card_files(served)


def test_the_card_has_the_models_tokens_ends_and_template() -> None:
    served, _ = describe_model(LoadOptions(resolve_model(None, None)), "embedded")
    files = card_files(served)
    text = "def f(x):\n    return x  # é"
    again = tokenizers.Tokenizer.from_str(files["tokenizer.json"])
    assert again.encode(text).ids == served.tokenizer.encode(text)
    config = json.loads(files["config.json"])
    assert config["eos_token_id"] == list(served.eos_token_ids)
    assert config["max_position_embeddings"] == served.context_length
    assert served.chat is not None
    assert files["chat_template.jinja"] == served.chat.template.source
    assert json.loads(files["tokenizer_config.json"])["eos_token"] == "<|endoftext|>"


def test_a_pool_has_as_many_blocks_as_its_slots_at_their_longest_or_fewer() -> None:
    served, _ = describe_model(LoadOptions(resolve_model(None, None)), "embedded")
    assert kv_blocks(served, 4) == 4 * served.context_length // BLOCK_TOKENS
    assert kv_blocks(replace(served, positions=10 * BLOCK_TOKENS + 1), 4) == 10


def test_the_same_model_has_the_same_folder_and_another_has_another(tmp_path: Path) -> None:
    files = embedded_files()
    first = write_card(files, tmp_path)
    assert write_card(files, tmp_path) == first
    assert {path.name: path.read_text() for path in first.iterdir()} == files
    assert write_card(files | {"config.json": "{}"}, tmp_path) != first
    assert len(list(tmp_path.iterdir())) == 2
