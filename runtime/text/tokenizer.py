"""Text to token ids and back: the checkpoint's `tokenizer.json`, run by the `tokenizers` library.

The library encodes and decodes whole texts.  A server also needs the bytes of every token on its own, for `logprobs`
and for text that streams (`text_stream.py`); `token_bytes.py` compiles the decoder for that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from runtime.errors import CheckpointError, RequestError
from runtime.text.token_bytes import PieceRules, compile_decoder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import tokenizers

    from runtime.checkpoint.open import Checkpoint


class Tokenizer:
    """The vocabulary of one checkpoint.  Nothing changes after loading, so any thread may use it.

    Args:
        backend: the library's tokenizer.
        token_names: the spelling of the special tokens, by names such as `bos_token`.

    Attributes:
        rules: how tokens become bytes.
        longest_token: characters of text that one token stands for, at most.
        special_ids: ids of the tokens that are not text.
        added_tokens: the ids of those that were added to the vocabulary as a whole, special or not, by their spelling.
        eos_id: the token that ends a text, if the folder names one.

    Raises:
        CheckpointError: the decoder is not one that cede can stream.
    """

    def __init__(self, backend: tokenizers.Tokenizer, token_names: Mapping[str, str] | None = None) -> None:
        # A file saved after training may still carry the trainer's truncation and padding.
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self.rules = _rules_of(backend)
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        self.added_tokens = {token.content: token_id for token_id, token in added.items()}
        self.eos_id = self.token_id((token_names or {}).get("eos_token", ""))
        # In the file's spelling a character stands for one of text, or for a byte of one.
        self.longest_token = max(map(len, self.vocabulary), default=1)
        self._bytes: dict[int, bytes] = {}  # memo of token_bytes, at most the vocabulary
        self._texts: dict[int, str] = {}  # memo of token_text

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> Tokenizer:
        """Read the tokenizer of a checkpoint.

        Raises:
            CheckpointError: it is missing, broken, or not supported; the message names the file.
        """
        return cls(checkpoint.tokenizer(), checkpoint.token_names())

    @property
    def vocab_size(self) -> int:
        """The number of tokens, added ones included.  A row of logits is often longer: it is padded."""
        return int(self._backend.get_vocab_size(with_added_tokens=True))

    @property
    def vocabulary(self) -> dict[str, int]:
        """The id of every token, by its spelling in the file, added tokens included."""
        return dict(self._backend.get_vocab(with_added_tokens=True))

    def to_json(self) -> str:
        """Return the text of a `tokenizer.json` that describes it."""
        return str(self._backend.to_str())

    def token_id(self, token: str) -> int | None:
        """Return the id of the token with exactly this spelling in the vocabulary (`"<|im_end|>"`), or None."""
        return self._backend.token_to_id(token)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of `text`; special tokens that are spelled out in it become their ids.

        Other threads run meanwhile: the library's functions for batches release the interpreter, those for one text do
        not.  The time it takes depends on the text; `prompt_tokens.py` bounds it.

        Args:
            text: the text.
            add_special_tokens: let the post-processor of `tokenizer.json` add its BOS, or whatever it has, around a
                plain prompt.  A rendered chat template already has it: pass False there.  `add_bos_token` of
                `tokenizer_config.json` is not read, as in transformers 5: beside a `tokenizer.json` the post-processor
                alone decides.

        Raises:
            RequestError: the text is not Unicode (JSON can spell half of a surrogate pair).
        """
        try:
            (encoding,) = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
            return list(encoding.ids)
        except (UnicodeEncodeError, TypeError) as error:
            raise RequestError("The text holds half of a surrogate pair, so it is not valid Unicode.") from error

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Decode a whole text by the library; ids beyond the vocabulary add nothing.

        Other threads run meanwhile, as in `encode`.
        """
        (text,) = self._backend.decode_batch([list(ids)], skip_special_tokens=skip_special_tokens)
        return str(text)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that this token adds in the middle of a text (OpenAI's `bytes` in logprobs).

        For a special token they are its name, for an id beyond the vocabulary there are none.
        """
        found = self._bytes.get(token_id)
        if found is None:
            found = self._bytes[token_id] = self.rules.piece(self._backend.id_to_token(token_id) or "")
        return found

    def first_bytes(self, token_id: int) -> bytes:
        """Return the `token_bytes` of a token that begins a text, which some decoders treat differently."""
        return self.rules.first_piece(self._backend.id_to_token(token_id) or "")

    def token_text(self, token_id: int) -> str:
        r"""Return a readable name (OpenAI's `token` in logprobs).

        Part of a character is written in escapes (`\xf0\x9f`) and not as U+FFFD: different tokens should look
        different, the more so where they are the keys of an object.
        """
        found = self._texts.get(token_id)
        if found is None:
            found = self._texts[token_id] = self.token_bytes(token_id).decode("utf-8", errors="backslashreplace")
        return found


def _rules_of(backend: tokenizers.Tokenizer) -> PieceRules:
    if backend.decoder is None:
        raise CheckpointError("tokenizer.json names no decoder, so its tokens cannot be turned into text")
    # What the library pickles is the decoder's part of tokenizer.json, without the large vocabulary.
    return compile_decoder(json.loads(cast("bytes", backend.decoder.__getstate__())))
