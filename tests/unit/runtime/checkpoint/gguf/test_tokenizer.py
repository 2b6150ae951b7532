"""Tokenizers rebuilt from a GGUF file's metadata, against those that the metadata describe."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
import sentencepiece
from gguf.constants import TokenType
from sentencepiece import sentencepiece_model_pb2
from tokenizers.pre_tokenizers import ByteLevel

from runtime.checkpoint.gguf.tokenizer import rebuild_tokenizer
from runtime.errors import CheckpointError
from runtime.text.tokenizer import Tokenizer
from tests.models.texts import texts
from tests.unit.runtime.checkpoint.gguf.vocabularies import (
    FILE,
    PIECES,
    SPECIALS,
    USER_DEFINED,
    byte_level_metadata,
    metadata_of,
    sentence_piece_metadata,
    train_byte_level,
    train_sentence_piece,
)

if TYPE_CHECKING:
    import tokenizers

    from runtime.checkpoint.gguf.metadata import Metadata

TEXTS = texts(2000)
SPACES = ("  ", "   ", "\n\n")


@pytest.fixture(scope="module")
def gpt2() -> tokenizers.Tokenizer:
    return train_byte_level(ByteLevel(add_prefix_space=False, use_regex=True))


@pytest.fixture(scope="module")
def llama_like() -> bytes:
    """A model file of SentencePiece that reads a text as if a space stood before it, as Llama's does."""
    return train_sentence_piece(dummy_prefix=True)


@pytest.fixture(scope="module")
def gemma_like() -> bytes:
    """One that does not, and whose runs of spaces are tokens, as Gemma's."""
    return train_sentence_piece(dummy_prefix=False, user_defined=(*SPACES, "<tool>"))


@pytest.fixture(scope="module")
def byteless() -> bytes:
    """One without byte tokens."""
    return train_sentence_piece(dummy_prefix=True, byte_fallback=False)


# --- byte-level BPE -----------------------------------------------------------------------------------------------


def test_special_and_user_defined_tokens_are_found_in_text(gpt2: tokenizers.Tokenizer) -> None:
    backend = rebuild_tokenizer(byte_level_metadata(gpt2, "gpt-2"))
    text = f"a{SPECIALS[2]} b<tool>    c"
    assert backend.encode(text).ids == gpt2.encode(text).ids
    assert {backend.token_to_id(token) for token in (SPECIALS[2], *USER_DEFINED)} <= set(backend.encode(text).ids)


def test_special_tokens_are_no_text_and_user_defined_ones_are(gpt2: tokenizers.Tokenizer) -> None:
    tokenizer = Tokenizer(rebuild_tokenizer(byte_level_metadata(gpt2, "gpt-2")))
    assert tokenizer.decode(tokenizer.encode(f"a{SPECIALS[2]}<tool>")) == "a<tool>"
    assert tokenizer.special_ids == {tokenizer.token_id(token) for token in SPECIALS}


def test_bytes_that_no_token_stands_for_are_left_out(gpt2: tokenizers.Tokenizer) -> None:
    """As in SmolLM2's vocabulary, which lacks some control characters."""
    metadata = byte_level_metadata(gpt2, "gpt-2")
    tokens = ["<gone>" if token == "Ą" else token for token in metadata["tokenizer.ggml.tokens"]]  # byte 0x04
    merges = [merge for merge in metadata["tokenizer.ggml.merges"] if "Ą" not in merge]
    backend = rebuild_tokenizer(byte_level_metadata(gpt2, "gpt-2", tokens=tokens, merges=merges))
    assert backend.encode("a\x04b").ids == [backend.token_to_id("a"), backend.token_to_id("b")]


# --- SentencePiece ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["llama_like", "gemma_like", "byteless"])
def test_tokens_are_those_of_sentencepiece(model: str, request: pytest.FixtureRequest) -> None:
    file = request.getfixturevalue(model)
    reference = sentencepiece.SentencePieceProcessor(model_proto=file)
    backend = rebuild_tokenizer(sentence_piece_metadata(file))
    for text in TEXTS:
        assert backend.encode(text, add_special_tokens=False).ids == reference.encode(text), text


def test_gemma_4_has_the_same_merges_in_a_list(gemma_like: bytes) -> None:
    with_scores = rebuild_tokenizer(sentence_piece_metadata(gemma_like))
    merges = [" ".join(pair) for pair in json.loads(with_scores.to_str())["model"]["merges"]]
    others = {"scores": None, "merges": merges, "add_space_prefix": None}
    keys = dict(sentence_piece_metadata(gemma_like, **others))
    backend = rebuild_tokenizer(metadata_of({}, **keys | {"tokenizer.ggml.model": "gemma4"}))
    for text in TEXTS:
        assert backend.encode(text).ids == with_scores.encode(text).ids, text


@pytest.mark.parametrize("model", ["llama_like", "gemma_like"])
def test_texts_are_those_of_sentencepiece(model: str, request: pytest.FixtureRequest) -> None:
    file = request.getfixturevalue(model)
    reference = sentencepiece.SentencePieceProcessor(model_proto=file)
    tokenizer = Tokenizer(rebuild_tokenizer(sentence_piece_metadata(file)))
    for text in TEXTS[:500]:
        ids = reference.encode(text)
        assert tokenizer.decode(ids, skip_special_tokens=False) == reference.decode(ids)
        streamed = b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", errors="replace")
        assert streamed.removeprefix(" " if model == "llama_like" else "") == text.replace("▁", " ")


def test_a_prefix_space_is_the_default(llama_like: bytes) -> None:
    backend = rebuild_tokenizer(sentence_piece_metadata(llama_like, add_space_prefix=None))
    assert backend.encode("the", add_special_tokens=False).tokens == ["▁the"]


def test_special_ids_are_those_of_llama_by_default(llama_like: bytes) -> None:
    keys = ("bos_token_id", "eos_token_id", "unknown_token_id")
    backend = rebuild_tokenizer(sentence_piece_metadata(llama_like, **dict.fromkeys(keys)))
    assert backend.encode("").tokens == ["<s>"]


def test_control_tokens_are_found_and_cut_the_text(llama_like: bytes) -> None:
    """Each part is read as if a space stood before it, as transformers and llama.cpp do."""
    backend = rebuild_tokenizer(sentence_piece_metadata(llama_like))
    assert backend.encode("the</s>the", add_special_tokens=False).tokens == ["▁the", "</s>", "▁the"]


@pytest.mark.parametrize(("architecture", "strips"), [("phi3", True), ("llama", False)])
def test_spaces_behind_phi_3s_special_tokens_are_nothing(llama_like: bytes, architecture: str, strips: bool) -> None:
    keys = sentence_piece_metadata(llama_like)
    backend = rebuild_tokenizer(metadata_of({}, **dict(keys), **{"general.architecture": architecture}))
    spaced, plain = (backend.encode(text).ids for text in ("a</s>   the", "a</s>the"))
    assert (spaced == plain) == strips


def test_unused_tokens_beside_the_pieces_are_left_alone(llama_like: bytes) -> None:
    """A converter fills the vocabulary up to the size of the embeddings."""
    metadata = padded(llama_like, "[PAD2400]")
    assert rebuild_tokenizer(metadata).get_vocab_size() == len(metadata["tokenizer.ggml.tokens"])


# --- beginning and end of a text ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pre", "keys", "added"),
    [
        ("gpt-2", {}, (False, False)),
        ("llama-bpe", {}, (True, False)),
        ("llama-bpe", {"add_bos_token": False}, (False, False)),
        ("gpt-2", {"add_bos_token": True, "add_eos_token": True}, (True, True)),
        ("gpt-2", {"add_eos_token": True}, (False, True)),
    ],
)
def test_bos_and_eos_are_added_where_the_file_says_so(
    gpt2: tokenizers.Tokenizer, pre: str, keys: dict[str, bool], added: tuple[bool, bool]
) -> None:
    backend = rebuild_tokenizer(byte_level_metadata(gpt2, pre, **keys))
    bos, eos = ([backend.token_to_id(token)] if adds else [] for token, adds in zip(SPECIALS, added, strict=False))
    plain = backend.encode("a text", add_special_tokens=False).ids
    assert backend.encode("a text").ids == [*bos, *plain, *eos]


def test_a_bos_token_may_have_any_spelling(gpt2: tokenizers.Tokenizer) -> None:
    """The library's templates give a meaning to spaces, colons and dollar signs."""
    metadata = byte_level_metadata(gpt2, "gpt-2")
    tokens = ["$A :1 $" if token == SPECIALS[0] else token for token in metadata["tokenizer.ggml.tokens"]]
    backend = rebuild_tokenizer(byte_level_metadata(gpt2, "gpt-2", tokens=tokens, add_bos_token=True))
    assert backend.encode("").tokens == ["$A :1 $"]


def test_a_bos_token_to_be_added_must_be_named(gpt2: tokenizers.Tokenizer) -> None:
    with pytest.raises(CheckpointError, match=rf"{FILE}: tokenizer\.ggml\.bos_token_id is missing"):
        rebuild_tokenizer(byte_level_metadata(gpt2, "gpt-2", bos_token_id=None, add_bos_token=True))


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": "bert"}, r"model is 'bert'; cede knows 'gpt2', 'llama', 'gemma4'"),
        ({"model": None}, "model is missing"),
        ({"pre": "falcon"}, "pre is 'falcon', a pre-tokeniser that cede does not know; it knows chatglm-bpe, .*qwen2"),
        ({"pre": None}, "pre does not name a pre-tokeniser"),
        ({"pre": "default"}, "pre does not name a pre-tokeniser"),
        ({"add_space_prefix": True}, "add_space_prefix is true"),
        ({"add_sep_token": True}, "add_sep_token is true"),
        ({"merges": None}, "merges is missing"),
        ({"merges": ["a zyzzyva"]}, "merges has 'a zyzzyva', which does not join two tokens"),
        ({"merges": ["a"]}, "merges has 'a'"),
        ({"merges": [" a"]}, "merges has ' a'"),
        ({"merges": ["t h e"]}, "merges has 't h e'"),
        ({"merges": [1]}, "merges is a list"),
    ],
)
def test_byte_level_bpe_that_would_be_wrong_is_refused(
    gpt2: tokenizers.Tokenizer, keys: dict[str, object], message: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"{FILE}: tokenizer\.ggml\.{message}"):
        rebuild_tokenizer(byte_level_metadata(gpt2, "gpt-2", **keys))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"scores": None}, "scores is missing"),
        ({"scores": [0.0]}, "scores has 1 entries for 2400 tokens"),
        ({"scores": [math.nan] * PIECES}, "scores has a score that is not a finite number"),
        ({"scores": [math.inf] * PIECES}, "scores has a score that is not a finite number"),
        ({"remove_extra_whitespaces": True}, "remove_extra_whitespaces is true"),
        ({"precompiled_charsmap": [1, 2]}, "precompiled_charsmap would have text rewritten"),
    ],
)
def test_sentencepiece_that_would_be_wrong_is_refused(llama_like: bytes, keys: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=rf"{FILE}: tokenizer\.ggml\.{message}"):
        rebuild_tokenizer(sentence_piece_metadata(llama_like, **keys))


def test_byte_tokens_are_all_there_or_none(llama_like: bytes) -> None:
    types = sentence_piece_metadata(llama_like)["tokenizer.ggml.token_type"]
    types[types.index(TokenType.BYTE)] = int(TokenType.NORMAL)
    with pytest.raises(CheckpointError, match="has 255 byte tokens"):
        rebuild_tokenizer(sentence_piece_metadata(llama_like, token_type=types))


def test_an_unused_token_that_text_could_become_is_refused(llama_like: bytes) -> None:
    with pytest.raises(CheckpointError, match="says that '▁the▁the' is unused, and it is the join of two"):
        rebuild_tokenizer(padded(llama_like, "▁the▁the"))


def test_a_token_of_any_length_costs_little_time(llama_like: bytes) -> None:
    """All its cuts would be tried, each as long as the token."""
    with pytest.raises(CheckpointError, match="has a token of 1000000 characters"):
        rebuild_tokenizer(padded(llama_like, "a" * 1_000_000, kind=TokenType.NORMAL))
    rebuild_tokenizer(padded(llama_like, "a" * 1_000_000))


def padded(model: bytes, token: str, kind: TokenType = TokenType.UNUSED) -> Metadata:
    """Describe a SentencePiece model with one more token."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.pieces.add(piece=token, score=-1000, type=int(kind))
    return sentence_piece_metadata(proto.SerializeToString())
