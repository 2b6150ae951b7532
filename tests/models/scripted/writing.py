"""A checkpoint that says one of several texts, token by token, whatever else the prompt holds.

Each piece of a text is a token that stands nowhere else, so the last token alone tells the next: the head's row of each
is the embedding of the one before it, and the layer between them adds nothing.  A text is cut into pieces at random,
none of which begins another, so that what a grammar forces is encoded as the model says it; an added token may stand
once in all texts together.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Container, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

END = "<|end of text|>"
CHOICE = "{%- if add_generation_prompt %}<|say {{ messages[-1].content.split(' ')[0] }}|>{% endif %}"
"""Behind a template: the last message begins with the number of the text."""

_WIDTH = 512
_WORDS = 4000


def write_scripted(
    folder: Path,
    texts: Sequence[str],
    template: str,
    added: Sequence[str] = (),
    *,
    choice: str = CHOICE,
    endless: Container[int] = (),
    context: int = 4096,
    prose: Sequence[str] = (),
    longest: int = 9,
) -> None:
    """Write a model.

    Args:
        folder: to write to.
        texts: that it can say.
        template: of its chats.
        added: tokens for whole markers, which are special.
        choice: a template behind that one, whose `<|say 0|>` begins the first text.
        endless: numbers of the texts that begin again instead of ending.
        context: tokens that it is said to be made for.
        prose: texts whose words shall be tokens, for long prompts; without, each beginning of a piece is one, too, as
            what a grammar forces may end in the middle of a piece, of which llguidance takes back four tokens at most.
        longest: characters of a piece, as a rule.
    """
    distinct = _cut(texts, added, longest)
    cut = list(enumerate(distinct if prose else _joined(distinct, added)))
    chains = [[f"<|say {number}|>", *said, said[0] if number in endless else END] for number, said in cut]
    specials = [END, *added, *(chain[0] for chain in chains)]
    letters, merges = _learned(prose)
    pieces = [piece for chain in chains for piece in chain if piece not in specials]
    begun = [] if prose else [piece[:length] for piece in pieces for length in range(1, len(piece))]
    for piece in (*pieces, *begun):
        letters.setdefault(_letters(piece), len(letters))
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=merges, ignore_merges=not prose))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if not prose:
        words = "|".join(map(re.escape, sorted({*pieces, *begun}, key=len, reverse=True)))
        split = pre_tokenizers.Split(Regex(words), "isolated")
        spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, spelled])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = tokenizer.get_vocab()
    ids = [[vocabulary[piece if piece in specials else _letters(piece)] for piece in chain] for chain in chains]
    _write_weights(folder, ids, len(vocabulary), vocabulary[END], context)
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    (folder / "chat_template.jinja").write_text(template + choice)


def _learned(prose: Sequence[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return a vocabulary of bytes and of what stands often in these texts, and the pairs that are merged."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=_WORDS, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(prose, trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    return learned["vocab"], [tuple(pair) for pair in learned["merges"]]


def _letters(piece: str) -> str:
    """Return a piece in the alphabet of byte-level tokenizers."""
    (word, _), *_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(piece)
    return word


def _cut(texts: Sequence[str], added: Sequence[str], longest: int) -> list[list[str]]:
    """Cut texts into pieces of which no two are alike."""
    parts = re.compile(f"({'|'.join(map(re.escape, added))})") if added else re.compile(r"(?!)")
    lengths, known = _lengths(longest), set[str]()
    cut = [[piece for part in parts.split(text) for piece in _pieces(part, added, lengths, known)] for text in texts]
    if sum(map(len, cut)) > len({piece for pieces in cut for piece in pieces}):
        raise ValueError("there is no way to cut these texts")
    return cut


def _lengths(longest: int) -> Iterator[int]:
    """Draw lengths of pieces, of which there are fewer short ones."""
    numbers, lengths = random.Random(0), range(1, longest + 1)
    while True:
        yield from numbers.choices(lengths, [min(length, 5) for length in lengths])


def _pieces(part: str, added: Sequence[str], lengths: Iterator[int], known: set[str]) -> list[str]:
    """Cut a text into pieces that are not known yet, and will be."""
    if part in added:
        return [part]
    pieces: list[str] = []
    while part:
        length = next(lengths)
        while part[:length] in known and length < len(part):
            length += 1
        piece, part = part[:length], part[length:]
        while piece in known and pieces:  # the end of the text is too short
            piece = pieces.pop() + piece
        known.add(piece)
        pieces.append(piece)
    return pieces


def _joined(cut: list[list[str]], added: Sequence[str]) -> list[list[str]]:
    """Join pieces until none begins another, so that a tokenizer finds them again from the end of any."""
    while True:
        ordered = sorted(piece for pieces in cut for piece in pieces if piece not in added)
        begins = {one for one, other in pairwise(ordered) if other.startswith(one)}
        if not begins:
            return cut
        before, cut = cut, [_join(pieces, begins, added) for pieces in cut]
        if cut == before:
            raise ValueError("there is no way to cut these texts")


def _join(pieces: Sequence[str], begins: Container[str], added: Sequence[str]) -> list[str]:
    """Join these pieces with the next, or with the one before at the end of a text or before an added token."""
    joined: list[str] = []
    for piece, following in zip(pieces, [*pieces[1:], None], strict=True):
        is_last = following is None or following in added
        may_join = bool(joined) and joined[-1] not in added and piece not in added
        if may_join and (joined[-1] in begins or (is_last and piece in begins)):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


@torch.no_grad()
def _write_weights(folder: Path, chains: Sequence[Sequence[int]], vocabulary: int, end: int, context: int) -> None:
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=_WIDTH,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=context,
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
