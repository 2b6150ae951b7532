"""The vocabulary in a GGUF file's metadata: tokens with their types, the special ones, the chat template.

A token's type says what it is to the tokenizer.  Tokens of the types control, unknown and user-defined are found in
text as they are spelled; the first two are *special*, which means that they are no text.  A byte token stands for one
byte of a character that has no token, and an unused one for nothing.

Sources: ggml's docs/gguf.md; llama.cpp `src/llama-vocab.cpp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gguf.constants import Keys, TokenType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.gguf.metadata import Metadata

BYTE_LEVEL, SENTENCE_PIECE, GEMMA4 = "gpt2", "llama", "gemma4"  # of `tokenizer.ggml.model`

SPECIAL_TYPES = (TokenType.CONTROL, TokenType.UNKNOWN)
FOUND_IN_TEXT = (*SPECIAL_TYPES, TokenType.USER_DEFINED)

_NAMES = {  # as transformers names special tokens
    "bos_token": Keys.Tokenizer.BOS_ID,
    "eos_token": Keys.Tokenizer.EOS_ID,
    "unk_token": Keys.Tokenizer.UNK_ID,
    "sep_token": Keys.Tokenizer.SEP_ID,
    "pad_token": Keys.Tokenizer.PAD_ID,
    "mask_token": Keys.Tokenizer.MASK_ID,
}
_END_KEYS = (Keys.Tokenizer.EOS_ID, Keys.Tokenizer.EOT_ID, Keys.Tokenizer.EOM_ID)
_SENTENCE_PIECE_IDS = {Keys.Tokenizer.UNK_ID: 0, Keys.Tokenizer.BOS_ID: 1, Keys.Tokenizer.EOS_ID: 2}
_NO_ID = 0xFFFF_FFFF  # -1, as an unsigned number

# Control tokens that end an answer in some family, whichever keys a file has.
_END_TOKENS = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<turn|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<EOT>",
)
# One that does so where the file has it as text to be shown: behind its calls, Gemma 4 would go on with their answers.
_SHOWN_END = "<|tool_response>"
_MESSAGE_END, _TURN_ENDS = "<|end|>", ("<|return|>", "<|call|>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Every token of a file, checked: no two are spelled alike, and each has a type.

    Attributes:
        metadata: what it was read from.
        model: the kind of tokenizer, in the file's word.
        tokens: their spelling, by id.
        types: likewise, what `gguf.TokenType` numbers.
        ids: by spelling.
    """

    metadata: Metadata
    model: str
    tokens: list[str]
    types: list[int]
    ids: Mapping[str, int]

    @classmethod
    def read(cls, metadata: Metadata) -> Vocabulary:
        """Read it.

        Raises:
            CheckpointError: a key is missing or of another type, lists differ in length, or a token is there twice.
        """
        tokens = metadata.require_list(Keys.Tokenizer.LIST, str)
        types = metadata.require_list(Keys.Tokenizer.TOKEN_TYPE, int)
        if not tokens:
            raise metadata.invalid(Keys.Tokenizer.LIST, "is empty")
        if len(types) != len(tokens):
            raise metadata.invalid(Keys.Tokenizer.TOKEN_TYPE, f"has {len(types)} entries for {len(tokens)} tokens")
        unknown = set(types) - {int(kind) for kind in TokenType}
        if unknown:
            raise metadata.invalid(Keys.Tokenizer.TOKEN_TYPE, f"has the unknown type {min(unknown)}")
        ids = {token: token_id for token_id, token in enumerate(tokens)}
        if len(ids) < len(tokens):
            first = next(token for token_id, token in enumerate(tokens) if ids[token] != token_id)
            raise metadata.invalid(Keys.Tokenizer.LIST, f"has {first!r:.60} twice")
        return cls(metadata, metadata.require(Keys.Tokenizer.MODEL, str), tokens, types, ids)

    def special_id(self, key: str) -> int | None:
        """Return the id under a key such as `tokenizer.ggml.bos_token_id`; None where the file names no such token.

        Raises:
            CheckpointError: there is no token of that id.
        """
        token_id = self.metadata.find(key, int)
        if token_id is None and self.model == SENTENCE_PIECE:
            token_id = _SENTENCE_PIECE_IDS.get(key)
        if token_id is None or token_id in (-1, _NO_ID):
            return None
        if not 0 <= token_id < len(self.tokens):
            raise self.metadata.invalid(key, f"is {token_id}, and there are {len(self.tokens)} tokens")
        return token_id

    def is_special(self, token_id: int) -> bool:
        """Return whether a token is no text."""
        return self.types[token_id] in SPECIAL_TYPES


def token_names(metadata: Metadata) -> dict[str, str]:
    """Return the spelling of `bos_token`, `eos_token`, ..., as far as the file names them.

    Raises:
        CheckpointError: the vocabulary is malformed.
    """
    vocabulary = Vocabulary.read(metadata)
    ids = {name: vocabulary.special_id(key) for name, key in _NAMES.items()}
    return {name: vocabulary.tokens[token_id] for name, token_id in ids.items() if token_id is not None}


def end_token_ids(metadata: Metadata) -> tuple[int, ...]:
    """Return the ids of all tokens that end an answer, the one of `eos_token_id` first.

    Files name one to three.  As in llama.cpp, others count by their spelling, but only where they are control tokens;
    and where an answer consists of several messages, as gpt-oss's do, the end of a message is not its end.

    Raises:
        CheckpointError: the vocabulary is malformed.
    """
    vocabulary = Vocabulary.read(metadata)
    named = [vocabulary.special_id(key) for key in _END_KEYS]
    spelled = [vocabulary.ids.get(token) for token in _END_TOKENS]
    if all(token in vocabulary.ids for token in _TURN_ENDS):
        spelled = [token_id for token_id in spelled if token_id != vocabulary.ids.get(_MESSAGE_END)]
    found = [token_id for token_id in spelled if token_id is not None and vocabulary.is_special(token_id)]
    if (shown := vocabulary.ids.get(_SHOWN_END)) is not None and vocabulary.types[shown] in FOUND_IN_TEXT:
        found.append(shown)
    return tuple(dict.fromkeys([*(token_id for token_id in named if token_id is not None), *found]))


def chat_template(metadata: Metadata) -> str | None:
    """Return the source of the chat template; None for a base model.

    Raises:
        CheckpointError: there are several, and none is the default one.
    """
    source = metadata.find(Keys.Tokenizer.CHAT_TEMPLATE, str)
    named = metadata.find_list(Keys.Tokenizer.CHAT_TEMPLATES, str)
    if source is None and named:
        source = metadata.find(Keys.Tokenizer.CHAT_TEMPLATE_N.format(name="default"), str)
        if source is None:
            raise metadata.invalid(Keys.Tokenizer.CHAT_TEMPLATES, "names several templates, none of them `default`")
    return source
