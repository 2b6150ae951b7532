"""Each name's rules against those of the tokenizer.json that the family came with.

Where transformers builds a family's tokenizer itself, its class is the reference; the others' rules are written down
here as in the original files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Split
from transformers import CohereTokenizer, GPT2Tokenizer, GPTNeoXTokenizer, Qwen2Tokenizer, Qwen3_5Tokenizer
from transformers.convert_slow_tokenizer import TikTokenConverter

from runtime.checkpoint.gguf.pretokenizers import PRE_TOKENIZERS
from runtime.checkpoint.gguf.tokenizer import rebuild_tokenizer
from tests.models.texts import texts
from tests.unit.runtime.checkpoint.gguf.vocabularies import (
    SPECIALS,
    USER_DEFINED,
    byte_level_metadata,
    train_byte_level,
)

if TYPE_CHECKING:
    import tokenizers

TEXTS = texts(2000, specials=(*SPECIALS, *USER_DEFINED))

BYTES = ByteLevel(add_prefix_space=False, use_regex=False)


def sequence(*patterns: str, digits: bool = False) -> PreTokenizer:
    splits: list[Any] = [Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*splits, *([Digits(individual_digits=True)] if digits else []), BYTES])


def of_class(family: Any) -> tuple[PreTokenizer, normalizers.Normalizer | None]:  # noqa: ANN401
    backend = family(vocab={"<|endoftext|>": 0, "<UNK>": 1}, merges=[])._tokenizer  # noqa: SLF001
    return backend.pre_tokenizer, backend.normalizer


def single_digits() -> PreTokenizer:
    return pre_tokenizers.Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)])


CL100K = sequence(TikTokenConverter().pattern)
# o200k_base's pattern as it stands in tiktoken (openai_public.py), with and without the contractions.
O200K_WORD = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"
)
O200K_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
# As llama.cpp's `llama-vocab.cpp` has it of the original tokenizer.json.
SEED_CODER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_CODER = ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN)

# As llama.cpp's `llama-vocab.cpp` has it.
LAGUNA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# As tokenization_kimi.py of Kimi K2 has it.
KIMI = (
    r"[\p{Han}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    rf"{CONTRACTION}|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    rf"{CONTRACTION}|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

O200K = sequence(O200K_WORD % (CONTRACTION, CONTRACTION) + r"\p{N}{1,3}" + O200K_REST)

REFERENCES: dict[str, tuple[PreTokenizer, normalizers.Normalizer | None]] = {
    "chatglm-bpe": (CL100K, None),
    "command-r": of_class(CohereTokenizer),
    "dbrx": (CL100K, None),
    "deepseek-coder": (sequence(*DEEPSEEK_CODER, digits=True), None),
    "deepseek-r1-qwen": of_class(Qwen2Tokenizer),
    "deepseek-v3": (sequence(*DEEPSEEK_V3), None),
    "falcon-h1": (CL100K, None),
    "glm4": (CL100K, None),
    "gpt-2": of_class(GPT2Tokenizer),
    "gpt-4o": (O200K, None),
    "hunyuan": (of_class(Qwen2Tokenizer)[0], None),
    "hunyuan-dense": (sequence(*DEEPSEEK_V3), None),
    "kimi-k2": (sequence(KIMI), None),
    "laguna": (sequence(r"[^\n]+|[\n]+", LAGUNA), None),
    "lfm2": (CL100K, None),
    "llama-bpe": (CL100K, None),
    "llama-v3": (CL100K, None),
    "llama3": (CL100K, None),
    "minimax-m2": (O200K, None),
    "olmo": of_class(GPTNeoXTokenizer),
    "phi-2": of_class(GPT2Tokenizer),
    "pixtral": (CL100K, None),
    "qwen2": of_class(Qwen2Tokenizer),
    "qwen35": of_class(Qwen3_5Tokenizer),
    "refact": (single_digits(), None),
    "seed-coder": (sequence(SEED_CODER), None),
    "smollm": (single_digits(), None),
    "starcoder": (single_digits(), None),
    "tekken": (sequence(O200K_WORD % ("", "") + r"\p{N}" + O200K_REST), None),
}
BY_LETTERS = "deepseek-llm"  # its pattern lists letters, in ranges; it has a test of its own


def test_every_name_is_tested() -> None:
    assert {*REFERENCES, BY_LETTERS} == set(PRE_TOKENIZERS)


def assert_alike(ours: tokenizers.Tokenizer, reference: tokenizers.Tokenizer) -> None:
    for text in TEXTS:
        expected = reference.encode(text, add_special_tokens=False).ids
        ids = ours.encode(text, add_special_tokens=False).ids
        assert ids == expected, text
        assert ours.decode(ids, skip_special_tokens=False) == reference.decode(expected, skip_special_tokens=False)


@pytest.mark.parametrize("name", REFERENCES)
def test_tokens_are_those_of_the_family(name: str) -> None:
    splits, normalizer = REFERENCES[name]
    reference = train_byte_level(splits, normalizer, ignore_merges=PRE_TOKENIZERS[name].ignores_merges)
    assert_alike(rebuild_tokenizer(byte_level_metadata(reference, name)), reference)


def test_deepseeks_first_tokenizer_cuts_between_letters_with_a_case_and_others() -> None:
    """Its tokenizer.json lists letters of Unicode's categories Lu, Ll and Lt, one range after the other.

    The range of its punctuation holds the letters of ASCII, too, so that others beside them become words.
    """
    cutter = PRE_TOKENIZERS[BY_LETTERS].pre_tokenizer()

    def words(text: str) -> list[str]:
        return [text[start:end] for _, (start, end) in cutter.pre_tokenize_str(text)]

    assert words("Hello world") == ["Hello", " world"]
    assert words("Hello wörld") == ["Hello", " w", "ö", "rld"]
    assert words("Ελλάδα Россия éé") == ["Ελλάδα", " Россия", " éé"]
    assert words("abcשלוםdef") == ["abc", "שלום", "def"]  # noqa: RUF001
    assert words("ab中文한국かな") == ["ab", "中文한국かな"]
    assert words("in 1984") == ["in", " ", "1", "9", "8", "4"]
    assert words("a?! （b）") == ["a", "?!", " （", "b", "）"]  # noqa: RUF001
    assert words("x\n\ny  ") == ["x", "\n", "\n", "y", "  "]


@pytest.mark.parametrize("name", ["glm4", "llama-bpe", "tekken"])
def test_a_word_that_is_a_token_is_not_built_from_merges(name: str) -> None:
    """As in Llama 3's vocabulary, which has words that no merges lead to."""
    reference = train_byte_level(REFERENCES[name][0])
    metadata = byte_level_metadata(reference, name)
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    added = byte_level_metadata(reference, name, tokens=[*tokens, "Ġzyzzyva"], token_type=[*types, 1])
    assert rebuild_tokenizer(added).encode(" zyzzyva", add_special_tokens=False).ids == [len(tokens)]


def test_other_names_build_the_word_from_merges() -> None:
    reference = train_byte_level(REFERENCES["dbrx"][0])
    metadata = byte_level_metadata(reference, "dbrx")
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    added = byte_level_metadata(reference, "dbrx", tokens=[*tokens, "Ġzyzzyva"], token_type=[*types, 1])
    assert len(rebuild_tokenizer(added).encode(" zyzzyva", add_special_tokens=False).ids) > 1
