"""A model's tokens as llguidance wants to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llguidance import LLTokenizer, TokenizerWrapper

if TYPE_CHECKING:
    from collections.abc import Collection

    from runtime.text.tokenizer import Tokenizer


def load_vocabulary(tokenizer: Tokenizer, vocab_size: int, end_ids: Collection[int]) -> LLTokenizer:
    """Return the library's tokenizer, which knows the bytes that each token adds to a text; it takes a second to make.

    The bytes are those that `runtime.text.text_stream` sends to clients, and so what is matched is what they see.

    Args:
        tokenizer: the model's.
        vocab_size: logits of a row.  Those without a token are never allowed.
        end_ids: tokens that may end an output where its grammar is complete.  Of a model without any, a token that
            does not exist takes their place; its outputs end where nothing may follow.
    """
    size = max(vocab_size, tokenizer.vocab_size)
    spelled = tokenizer.vocabulary
    ends = sorted(end_ids) or [size]
    size = max(size, *(end + 1 for end in ends))
    source = _Source(tokenizer, spelled, size, ends[0])
    return LLTokenizer(TokenizerWrapper(source), n_vocab=size, eos_token=ends)


class _Source:
    """Source that `TokenizerWrapper` reads, by the names that it reads; called with a text, it returns token ids."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, spelled: dict[str, int], size: int, end_id: int) -> None:
        self.eos_token_id = end_id
        self.tokens = [b""] * size
        for spelling, token_id in spelled.items():
            self.tokens[token_id] = tokenizer.rules.piece(spelling)
        self.tokens[end_id] = self.tokens[end_id] or b"<end>"
        # Added tokens are a format's markers, special or not, and no text: a grammar names them.  Some models have
        # added runs of spaces, which are text.
        markers = {token_id for spelling, token_id in tokenizer.added_tokens.items() if spelling.strip()}
        self.special_token_ids = sorted({*tokenizer.special_ids, *markers, end_id})
        self._tokenizer = tokenizer

    def __call__(self, text: str | bytes) -> list[int]:
        """Tokenise a text, of which the library takes no more than what a grammar forces."""
        whole = text.decode(errors="ignore") if isinstance(text, bytes) else text
        return self._tokenizer.encode(whole, add_special_tokens=False)
