"""Tokenizers of the two families that generative checkpoints use, small enough to train in a test."""

from __future__ import annotations

import functools
import json

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind.",
    "A request is a nursery; cancelling it stops exactly its own work and loses nothing.",
    "Größenwahn, naïveté, çà et là; 東京の天気は晴れです。 你好、世界。 안녕하세요",
    "def step(self) -> None:\n    self.drain()\n    return self.run(plan)  # one step\n",
    "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 👍🏽 thumb, 🇩🇪 country",
] * 3


# An added token with characters that the byte alphabet lacks, in the style of DeepSeek.
USER = "<\N{FULLWIDTH VERTICAL LINE}User 1\N{FULLWIDTH VERTICAL LINE}>"


@functools.cache
def byte_level(vocab_size: int = 400) -> tokenizers.Tokenizer:
    """As GPT-2, Llama 3 and Qwen: BPE over bytes.  `<think>` and USER are added, but not special."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|bos|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.add_tokens([AddedToken("<think>", special=False), AddedToken(USER, special=False)])
    backend.post_processor = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", 0)])
    return backend


@functools.cache
def llama2_style(decoder: str = "sequence", vocab_size: int = 500) -> tokenizers.Tokenizer:
    """As Llama 2 and Mistral: `▁` for spaces, one put in front, unknown characters as bytes `<0xE2>`.

    `decoder`: "sequence" (Llama 2), "gemma" (which strips nothing), or "metaspace" (T5, XGLM).
    """
    specials = ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    backend = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=specials + byte_tokens, limit_alphabet=60, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend = _with_plain_byte_tokens(backend, specials)
    fallback = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = {
        "sequence": decoders.Sequence([*fallback, decoders.Strip(" ", 1, 0)]),
        "gemma": decoders.Sequence(fallback),
        "metaspace": decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
    }[decoder]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return backend


def _with_plain_byte_tokens(trained: tokenizers.Tokenizer, specials: list[str]) -> tokenizers.Tokenizer:
    """The trainer knows only special tokens; byte tokens must be ordinary ones, which the decoder sees."""
    description = json.loads(trained.to_str())
    description["added_tokens"] = [t for t in description["added_tokens"] if t["content"] in specials]
    return tokenizers.Tokenizer.from_str(json.dumps(description))
