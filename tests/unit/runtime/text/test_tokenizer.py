"""The tokenizer: text to ids and back, special tokens, and the bytes of each id."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError, RequestError
from runtime.text.token_bytes import BYTE_ALPHABET, compile_decoder
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import USER, byte_level, llama2_style

if TYPE_CHECKING:
    from pathlib import Path

BYTE_LEVEL = Tokenizer(byte_level())
anytime = settings(deadline=None)  # a busy machine is no failure


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    byte_level().save(str(tmp_path / "tokenizer.json"))
    config = {"bos_token": {"content": "<|bos|>", "__type": "AddedToken"}, "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


# --- loading ------------------------------------------------------------------------------------------------


def test_load(folder: Path) -> None:
    tokenizer = Tokenizer.load(open_checkpoint(folder))
    assert tokenizer.vocab_size == byte_level().get_vocab_size()
    assert tokenizer.special_ids == {0, 1, 2}  # `<think>` is an added token, but text
    assert tokenizer.eos_id == 2
    assert tokenizer.token_id("<|im_start|>") == 1
    assert tokenizer.token_id("no such token") is None
    assert len(tokenizer.vocabulary) == tokenizer.vocab_size
    assert tokenizer.vocabulary[USER] == tokenizer.token_id(USER)


@pytest.mark.parametrize("name", ["tokenizer.model", "tekken.json", "vocab.json"])
def test_another_form_of_vocabulary_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=rf"has {name} but no tokenizer\.json.*save_pretrained"):
        Tokenizer.load(open_checkpoint(tmp_path))


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a folder"):
        Tokenizer.load(open_checkpoint(tmp_path / "absent"))
    with pytest.raises(CheckpointError, match=r"has no tokenizer\.json"):
        Tokenizer.load(open_checkpoint(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: cannot be read"):
        Tokenizer.load(open_checkpoint(tmp_path))


def test_broken_configuration(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="is not a JSON object"):
        Tokenizer.load(open_checkpoint(folder))
    (folder / "tokenizer_config.json").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: cannot be read"):
        Tokenizer.load(open_checkpoint(folder))


def test_token_names(tmp_path: Path) -> None:
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    config = {"eos_token": {"content": "<|end|>"}, "pad_token": None, "add_bos_token": True, "legacy": 1}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert open_checkpoint(tmp_path).token_names() == {"bos_token": "<s>", "eos_token": "<|end|>"}


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        decoders.WordPiece(),
        decoders.CTC(),
        decoders.Strip(" ", 1, 0),  # of each token, since nothing fused them
        decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", "c")]),  # may match across tokens
        decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)]),  # the end is not known in a stream
    ],
)
def test_a_decoder_that_cannot_stream_is_refused(decoder: decoders.Decoder | None) -> None:
    backend = Backend(models.BPE(vocab={"a": 0}, merges=[]))
    if decoder is not None:
        backend.decoder = decoder
    with pytest.raises(CheckpointError, match="decoder"):
        Tokenizer(backend)


# --- encoding -----------------------------------------------------------------------------------------------


def test_bos_comes_from_the_post_processor_and_only_when_asked_for() -> None:
    tokenizer = Tokenizer(byte_level())
    plain = tokenizer.encode("Hello", add_special_tokens=False)
    assert tokenizer.encode("Hello") == [0, *plain]
    assert tokenizer.encode("<|bos|>Hello", add_special_tokens=False) == [0, *plain]


def test_truncation_and_padding_of_the_file_are_ignored(folder: Path) -> None:
    backend = Backend.from_file(str(folder / "tokenizer.json"))
    backend.enable_truncation(4)
    backend.enable_padding(length=64)
    backend.save(str(folder / "tokenizer.json"))
    text = "A request is a nursery; cancelling it stops exactly its own work."
    assert Tokenizer.load(open_checkpoint(folder)).encode(text) == Tokenizer(byte_level()).encode(text)


def test_half_a_surrogate_pair_is_the_client_s_fault() -> None:
    with pytest.raises(RequestError, match="surrogate"):
        Tokenizer(byte_level()).encode(json.loads(r'"\ud83d"'))


@pytest.mark.parametrize("add_bos_token", [True, False, None])
@pytest.mark.parametrize("style", ["byte-level", "llama2"])
def test_parity_with_transformers(tmp_path: Path, add_bos_token: bool | None, style: str) -> None:
    transformers = pytest.importorskip("transformers")
    backend, bos = (byte_level(), "<|bos|>") if style == "byte-level" else (llama2_style(), "<s>")
    backend.save(str(tmp_path / "tokenizer.json"))
    config: dict[str, object] = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos}
    if add_bos_token is not None:
        config["add_bos_token"] = add_bos_token
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = Tokenizer.load(open_checkpoint(tmp_path))
    for text in ["Hello, the dog does not mind.", "", " 東京 👩‍👩‍👧‍👦\n", f"{bos}spelled out"]:
        for special in (True, False):
            ids = theirs.encode(text, add_special_tokens=special)
            assert ours.encode(text, add_special_tokens=special) == ids
            assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert ours.special_ids == set(theirs.all_special_ids) | ours.special_ids


# --- single tokens ------------------------------------------------------------------------------------------


def test_the_byte_alphabet_is_the_library_s() -> None:
    assert set(BYTE_ALPHABET) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(BYTE_ALPHABET.values()) == list(range(256))
    assert BYTE_ALPHABET["Ġ"] == ord(" ")


@anytime
@given(st.text())
def test_token_bytes_of_a_byte_level_text_are_its_utf8(text: str) -> None:
    ids = BYTE_LEVEL.encode(text, add_special_tokens=False)
    assert b"".join(map(BYTE_LEVEL.token_bytes, ids)) == text.encode()


def test_token_bytes_and_text_with_byte_fallback() -> None:
    tokenizer = Tokenizer(llama2_style())
    ids = tokenizer.encode("the 😀", add_special_tokens=False)
    assert b"".join(map(tokenizer.token_bytes, ids)) == " the 😀".encode()
    assert [tokenizer.token_text(token_id) for token_id in ids[-4:]] == [r"\xf0", r"\x9f", r"\x98", r"\x80"]


def test_token_text_of_special_added_and_unknown_tokens() -> None:
    tokenizer = Tokenizer(byte_level())
    assert tokenizer.token_text(2) == "<|im_end|>"
    for added in ("<think>", USER):
        token_id = tokenizer.token_id(added)
        assert token_id is not None
        assert tokenizer.token_bytes(token_id) == added.encode()
    assert tokenizer.token_bytes(10**6) == b""  # a row of padded logits
    assert tokenizer.decode([10**6]) == ""


def test_compiled_rules_of_llama_2() -> None:
    rules = compile_decoder(
        {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        }
    )
    assert rules.piece("▁a▁b") == b" a b"
    assert [rules.piece(token) for token in ("<0xE2>", "<0xe2>", "<0xZZ>", "<0x+1>")] == [
        b"\xe2",
        b"\xe2",
        b"<0xZZ>",
        b"<0x+1>",
    ]
    assert (rules.strip, rules.strip_count) == (" ", 1)
