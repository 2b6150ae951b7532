"""Check by llguidance itself of whether a grammar accepts an answer."""

from __future__ import annotations

import functools

import llguidance
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.grammar.sources import library_source

END = "<|im_end|>"


@functools.cache
def byte_tokenizer(*added: str) -> tokenizers.Tokenizer:
    """A tokenizer with a token for each byte, an end token, and these special ones."""
    vocab = {char: number for number, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in (END, *added)])
    return backend


def added_tokens(*added: str) -> dict[str, int]:
    """The ids of the special tokens of `byte_tokenizer`."""
    return {token.content: token_id for token_id, token in byte_tokenizer(*added).get_added_tokens_decoder().items()}


@functools.cache
def _guide(*added: str) -> llguidance.LLTokenizer:
    backend = byte_tokenizer(*added)
    return llguidance.LLTokenizer(backend.to_str(), eos_token=backend.token_to_id(END))


def accepts(grammar: Grammar, text: str, *added: str) -> bool:
    """Return whether a Lark grammar accepts the whole of `text`, where `added` are special tokens."""
    assert grammar.kind is GrammarKind.LARK
    matcher = llguidance.LLMatcher(_guide(*added), library_source(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    for token_id in byte_tokenizer(*added).encode(text, add_special_tokens=False).ids:
        if not matcher.consume_token(token_id):
            return False
    return bool(matcher.is_accepting())
