"""The metadata that llama.cpp's converter writes for a tokenizer, and small tokenizers to write them for."""

from __future__ import annotations

import io
import json
from pydoc_data.topics import topics
from typing import TYPE_CHECKING, Any

import sentencepiece
import tokenizers
from gguf.constants import TokenType
from sentencepiece import sentencepiece_model_pb2
from tokenizers import models, trainers

from runtime.checkpoint.gguf.metadata import Metadata
from tests.models.texts import texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenizers import normalizers, pre_tokenizers

FILE = "some/model.gguf"
SPECIALS = ("<|begin|>", "<|end|>", "<|im_end|>")
USER_DEFINED = ("<tool>", "    ")
PIECES = 2400  # of SentencePiece's vocabulary
CORPUS = [*list(topics.values())[:12], *texts(600, seed=7)]


def train_byte_level(
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    normalizer: normalizers.Normalizer | None = None,
    *,
    ignore_merges: bool = False,
) -> tokenizers.Tokenizer:
    """Train byte-level BPE whose words are those of `pre_tokenizer`, with special and user-defined tokens."""
    backend = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    backend.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        initial_alphabet=sorted(alphabet),
        special_tokens=list(SPECIALS),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.add_tokens([tokenizers.AddedToken(token, normalized=False, special=False) for token in USER_DEFINED])
    return backend


def byte_level_metadata(backend: tokenizers.Tokenizer, pre: str, /, **others: object) -> Metadata:
    """Describe byte-level BPE as a GGUF file does; `others` are further keys, without `tokenizer.ggml.`."""
    vocabulary = backend.get_vocab(with_added_tokens=True)
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    model = json.loads(backend.to_str())["model"]
    keys = {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": [_type_of(token) for token in tokens],
        "merges": [" ".join(pair) for pair in model["merges"]],
        "bos_token_id": vocabulary[SPECIALS[0]],
        "eos_token_id": vocabulary[SPECIALS[1]],
    }
    return metadata_of(keys | others)


def metadata_of(keys: Mapping[str, Any], **whole: object) -> Metadata:
    """Return metadata of these keys, which stand below `tokenizer.ggml.`, and of those whose whole name is given."""
    return Metadata(FILE, {f"tokenizer.ggml.{key}": value for key, value in keys.items() if value is not None} | whole)


def _type_of(token: str) -> int:
    if token in SPECIALS:
        return int(TokenType.CONTROL)
    return int(TokenType.USER_DEFINED if token in USER_DEFINED else TokenType.NORMAL)


# --- SentencePiece ------------------------------------------------------------------------------------------------


def train_sentence_piece(
    *,
    dummy_prefix: bool,
    byte_fallback: bool = True,
    user_defined: Sequence[str] = (),
) -> bytes:
    """Train SentencePiece BPE by its own library.

    Returns:
        its model file.
    """
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in CORPUS for line in text.splitlines() if "\0" not in line),
        model_writer=model,
        model_type="bpe",
        vocab_size=PIECES,
        character_coverage=0.99,
        byte_fallback=byte_fallback,
        add_dummy_prefix=dummy_prefix,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        user_defined_symbols=[token.replace(" ", "▁") for token in user_defined],
        minloglevel=2,
    )
    return model.getvalue()


def sentence_piece_metadata(model: bytes, **others: object) -> Metadata:
    """Describe a SentencePiece model as a GGUF file does: user-defined tokens have their spaces unmarked."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    keys = {
        "model": "llama",
        "pre": "default",
        "tokens": [
            piece.piece.replace("▁", " ") if piece.type == TokenType.USER_DEFINED else piece.piece
            for piece in proto.pieces
        ],
        "scores": [piece.score for piece in proto.pieces],
        "token_type": [piece.type for piece in proto.pieces],
        "bos_token_id": proto.trainer_spec.bos_id,
        "eos_token_id": proto.trainer_spec.eos_id,
        "unknown_token_id": proto.trainer_spec.unk_id,
        "add_space_prefix": proto.normalizer_spec.add_dummy_prefix,
    }
    return metadata_of(keys | others)
