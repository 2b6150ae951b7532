"""Real vocabularies, rebuilt from GGUF metadata, against the originals' own construction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
from gguf.constants import TokenType
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, models, pre_tokenizers

from runtime.checkpoint.gguf.header import read_header
from runtime.checkpoint.open import open_checkpoint
from tests.models.texts import texts

pytestmark = pytest.mark.real

COUNT = 2000
TOKENS, TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"


def smollm2_original(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Build SmolLM2's tokenizer as its tokenizer.json describes it: GPT-2's byte-level BPE, each digit a word."""
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: token_id for token_id, token in enumerate(metadata[TOKENS])}
    original = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    original.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    original.decoder = tokenizers.decoders.ByteLevel()
    specials = (token for token, kind in zip(metadata[TOKENS], metadata[TYPES], strict=True) if kind != 1)
    original.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return original


def gemma_original(metadata: Mapping[str, Any]) -> sentencepiece.SentencePieceProcessor:
    """Build Gemma's model file for SentencePiece: BPE, byte fallback, no normalisation, no space before the text.

    Control tokens become user-defined ones, which are found in text, as transformers finds them.
    """
    proto = sentencepiece_model_pb2.ModelProto()
    training, normalizer = proto.trainer_spec, proto.normalizer_spec
    training.model_type, training.byte_fallback = sentencepiece_model_pb2.TrainerSpec.BPE, True
    training.pad_id, training.eos_id, training.bos_id, training.unk_id = range(4)
    training.pad_piece, training.eos_piece, training.bos_piece, training.unk_piece = metadata[TOKENS][:4]
    normalizer.name, normalizer.add_dummy_prefix, normalizer.remove_extra_whitespaces = "identity", False, False
    columns = (metadata[TOKENS], metadata["tokenizer.ggml.scores"], metadata[TYPES])
    for token_id, (token, score, kind) in enumerate(zip(*columns, strict=True)):
        if token_id == training.unk_id:
            kind = TokenType.UNKNOWN
        elif kind == TokenType.CONTROL and token_id > training.unk_id:
            kind = TokenType.USER_DEFINED
        proto.pieces.add(piece=token.replace(" ", "▁"), score=score, type=int(kind))
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def test_smollm2s_tokens_are_those_of_its_tokenizer_json(smollm2: Path) -> None:
    original = smollm2_original(read_header(smollm2).metadata)
    rebuilt = open_checkpoint(smollm2).tokenizer()
    for text in texts(COUNT, seed=1, specials=("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<file_sep>")):
        ids = rebuilt.encode(text).ids
        assert ids == original.encode(text).ids, text
        assert rebuilt.decode(ids, skip_special_tokens=False) == original.decode(ids, skip_special_tokens=False)


def test_gemmas_tokens_are_those_of_sentencepiece(gemma3: Path) -> None:
    metadata = read_header(gemma3).metadata
    original = gemma_original(metadata)
    rebuilt = open_checkpoint(gemma3).tokenizer()
    bos = rebuilt.token_to_id("<bos>")
    for text in texts(COUNT, seed=2, specials=("<start_of_turn>", "<end_of_turn>", "<table>", "</s>", "<unused7>")):
        ids = original.encode(text)
        assert rebuilt.encode(text).ids == [bos, *ids], text
        assert rebuilt.decode(ids, skip_special_tokens=False) == original.decode(ids)


def test_the_four_tokens_that_sentencepiece_never_finds_in_text_are_found(gemma3: Path) -> None:
    """They are control tokens there; transformers finds them, and so does a chat template's text."""
    rebuilt = open_checkpoint(gemma3).tokenizer()
    assert rebuilt.encode("<pad><eos><bos><unk>", add_special_tokens=False).ids == [0, 1, 2, 3]
