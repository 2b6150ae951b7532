"""Byte-level BPE with 4096 entries, five of them special, trained on the corpus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from bench.corpus import ASSISTANT, END, END_OF_TEXT, SPECIALS, SYSTEM, USER

if TYPE_CHECKING:
    from pathlib import Path

    from bench.corpus import Split

VOCABULARY = 4096
CONTEXT = 4096

# A line break takes the indentation that follows it along: "\n        " is then one token, and so is "\n\n    ".
# Names keep their underscores, and one leading space; numbers go in threes.
PIECES = r" ?[\p{L}\p{M}_]+| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}_]+|(?:\r?\n)+[ \t]*|[ \t]+|\s"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}\n"
    "{{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "{{- '<|assistant|>\\n' -}}\n"
    "{%- endif -%}\n"
)


def train_tokenizer(split: Split) -> Tokenizer:
    """Learn the merges; special tokens take ids 0 to 4, in the order of ``SPECIALS``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(split.files, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja, as transformers reads them."""
    wrapped: Any = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT, END],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    wrapped.save_pretrained(str(folder))
    config_file = folder / "tokenizer_config.json"
    config = json.loads(config_file.read_text())
    config.pop("backend", None)  # transformers 5 writes names that 4.x cannot read; this pair both can
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config_file.write_text(json.dumps(config, indent=2) + "\n")
