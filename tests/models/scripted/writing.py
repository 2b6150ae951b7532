"""A checkpoint that says one of several texts, token by token, whatever else the prompt holds.

Each piece of a text is a token that stands nowhere else, so the last token alone tells the next: the head's row of each
is the embedding of the one before it, and the layer between them adds nothing.  A text is cut into pieces at random
until no two are alike; an added token may stand once in all texts together.
"""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

END = "<|end of text|>"
CHOICE = "{%- if add_generation_prompt %}<|say {{ messages[-1].content.split(' ')[0] }}|>{% endif %}"
"""Behind a template: the last message begins with the number of the text."""

_WIDTH = 512


def write_scripted(folder: Path, texts: Sequence[str], template: str, added: Sequence[str] = ()) -> None:
    """Write a model.

    Args:
        folder: to write to.
        texts: that it can say.
        template: of its chats.
        added: tokens for whole markers, which are special.
    """
    chains = [[f"<|say {number}|>", *pieces, END] for number, pieces in enumerate(_cut(texts, added))]
    specials = [END, *added, *(chain[0] for chain in chains)]
    letters = {char: number for number, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for piece in (piece for chain in chains for piece in chain if piece not in specials):
        letters.setdefault(_letters(piece), len(letters))
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = tokenizer.get_vocab()
    ids = [[vocabulary[piece if piece in specials else _letters(piece)] for piece in chain] for chain in chains]
    _write_weights(folder, ids, len(vocabulary), vocabulary[END])
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    (folder / "chat_template.jinja").write_text(template + CHOICE)


def _letters(piece: str) -> str:
    """Return a piece in the alphabet of byte-level tokenizers."""
    (word, _), *_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(piece)
    return word


def _cut(texts: Sequence[str], added: Sequence[str]) -> list[list[str]]:
    """Cut texts into pieces of which no two are alike."""
    parts = re.compile(f"({'|'.join(map(re.escape, added))})") if added else re.compile(r"(?!)")
    for seed in range(1000):
        numbers = random.Random(seed)
        cut = [[piece for part in parts.split(text) for piece in _pieces(part, added, numbers)] for text in texts]
        pieces = [piece for one in cut for piece in one]
        if len(set(pieces)) == len(pieces):
            return cut
    raise ValueError("there is no way to cut these texts")


def _pieces(part: str, added: Sequence[str], numbers: random.Random) -> Iterator[str]:
    if part in added:
        yield part
        return
    while part:
        length = numbers.choices(range(1, 10), (1, 2, 3, 4, 5, 5, 5, 5, 5))[0]
        yield part[:length]
        part = part[length:]


@torch.no_grad()
def _write_weights(folder: Path, chains: Sequence[Sequence[int]], vocabulary: int, end: int) -> None:
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=_WIDTH,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        bos_token_id=end,
        eos_token_id=end,
        dtype="float32",
    )
    model = LlamaForCausalLM(config)
    codes = torch.where(torch.rand(vocabulary, _WIDTH, generator=torch.Generator().manual_seed(0)) < 0.5, -1.0, 1.0)
    for name, parameter in model.named_parameters():
        parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
    model.model.embed_tokens.weight.copy_(codes)
    for chain in chains:
        for before, token in pairwise(chain):
            model.lm_head.weight[token] += codes[before] / 16
    model.generation_config.eos_token_id = end
    model.save_pretrained(folder)
