"""The pre-tokenisers of byte-level BPE, by the names that GGUF files have for them (`tokenizer.ggml.pre`).

A file holds a name, not the rules: llama.cpp's converter finds it by how the original tokenizer cuts a certain text.
The rules here are those of the families' own tokenizer.json, which the `tokenizers` library runs with the same regex
engine as upstream; a few of llama.cpp's differ from them, for it has an engine of its own and no Unicode normalisation.

Sources: llama.cpp `src/llama-vocab.cpp` (names, and the original patterns in its comments), `conversion/base.py` (which
model has which name); transformers' `Qwen2Tokenizer`, `Qwen3_5Tokenizer`, `CohereTokenizer`, `GPTNeoXTokenizer`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str, *, after_marks: str = r"[\r\n]*", accents: str = "") -> str:
    r"""Return the pattern of cl100k and its kin.

    Args:
        digits: how a number is cut, as `\p{N}{1,3}`.
        after_marks: what is one word with the marks before it.
        accents: what counts as a letter where it follows one, and as no mark: `\p{M}`.
    """
    letters, marks = rf"[\p{{L}}{accents}]+", rf"[^\s\p{{L}}{accents}\p{{N}}]+"
    return rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{letters}|{digits}| ?{marks}{after_marks}|{_SPACES}"


def _cased_words(digits: str, *, after: str = "", after_marks: str = r"[\r\n/]*", apart: str = "") -> str:
    """Return the pattern of o200k and its kin, which cut `camelCase`.

    Args:
        digits: how a number is cut.
        after: what may follow a word.
        after_marks: what is one word with the marks before it.
        apart: letters that make words of their own, if any do.
    """
    start, other = r"[^\r\n\p{L}\p{N}]?", f"&&[^{apart}]" if apart else ""
    upper, lower = (rf"[{case}\p{{Lm}}\p{{Lo}}\p{{M}}{other}]" for case in (r"\p{Lu}\p{Lt}", r"\p{Ll}"))
    words = f"{start}{upper}*{lower}+{after}|{start}{upper}+{lower}*{after}"
    own = f"[{apart}]+|" if apart else ""
    return rf"{own}{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+{after_marks}|{_SPACES}"


def _characters(ranges: str) -> str:
    """Return ranges of code points, in hexadecimal, as they stand in a regex's brackets."""
    return "".join("-".join(chr(int(point, 16)) for point in each.split("-")) for each in ranges.split())


# The letters that have a case, by the Unicode of DeepSeek's first tokenizer.
_CASED = _characters(
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c 38e-3a1 "
    "3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a "
    "1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 "
    "1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 "
    "212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 "
    "a640-a66d a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f "
    "104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)
_MARKS = "!-/:-~" + _characters("ff01-ff0f ff1a-ff5e 2018-201f 3000-3002")
_EAST_ASIAN = f"[{_characters('4e00-9fa5 800-4e00 ac00-d7ff')}]+"
_CHINESE_JAPANESE = f"[{_characters('4e00-9fa5 3040-309f 30a0-30ff')}]+"
_ASCII_MARK = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
_LETTERS_AND_MARKS = (
    rf"{_ASCII_MARK}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """Pre-tokenizer: how text is cut into words before bytes are merged, and what else a family's name implies.

    Attributes:
        splits: patterns whose matches become words, applied one after the other; what lies between them does, too.
        single_digits: then each digit becomes a word.
        gpt2_words: then GPT-2's own pattern cuts the rest.
        composes: letters and their accents are composed before (Unicode's NFC).
        ignores_merges: a word that is in the vocabulary as a whole is not built from merges.
        adds_bos: text begins with the BOS token where the file does not say.
    """

    splits: tuple[str, ...] = ()
    single_digits: bool = False
    gpt2_words: bool = False
    composes: bool = False
    ignores_merges: bool = False
    adds_bos: bool = False

    def normalizer(self) -> normalizers.Normalizer | None:
        """Return the library's normaliser; None where text stays as it is."""
        return normalizers.NFC() if self.composes else None

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Return the library's pre-tokeniser; its last part spells bytes as characters."""
        parts: list[pre_tokenizers.PreTokenizer] = [
            pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.splits
        ]
        if self.single_digits:
            parts.append(pre_tokenizers.Digits(individual_digits=True))
        return pre_tokenizers.Sequence(
            [*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=self.gpt2_words)]
        )


_SINGLE_DIGITS = PreTokenizer(single_digits=True, gpt2_words=True)
_LLAMA3 = PreTokenizer((_words(r"\p{N}{1,3}"),), ignores_merges=True, adds_bos=True)
_CL100K = PreTokenizer((_words(r"\p{N}{1,3}"),))
_O200K = PreTokenizer((_cased_words(r"\p{N}{1,3}", after=f"{_CONTRACTIONS}?"),))
_KIMI = _cased_words(r"\p{N}{1,3}", after=f"{_CONTRACTIONS}?", after_marks=r"[\r\n]*", apart=r"\p{Han}")
_QWEN = PreTokenizer((_words(r"\p{N}"),), composes=True)
_DEEPSEEK3 = PreTokenizer((r"\p{N}{1,3}", _CHINESE_JAPANESE, _LETTERS_AND_MARKS))

PRE_TOKENIZERS = {
    "chatglm-bpe": _CL100K,
    "command-r": PreTokenizer(single_digits=True, gpt2_words=True, composes=True),
    "dbrx": _CL100K,  # OLMo 2 and Phi-4, too
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN), single_digits=True),
    "deepseek-llm": PreTokenizer(
        (r"[\r\n]", rf"\s?[{_CASED}]+", rf"\s?[{_MARKS}]+", r"\s+$", _EAST_ASIAN), single_digits=True
    ),
    "deepseek-r1-qwen": _QWEN,
    "deepseek-v3": _DEEPSEEK3,
    "falcon-h1": _LLAMA3,  # so its publisher has it in llama.cpp, for four tokenizers
    "glm4": PreTokenizer((_words(r"\p{N}{1,3}"),), ignores_merges=True),
    "gpt-2": PreTokenizer(gpt2_words=True),
    "gpt-4o": _O200K,  # gpt-oss and Phi-4-mini
    "hunyuan": PreTokenizer((_words(r"\p{N}"),)),
    "hunyuan-dense": _DEEPSEEK3,
    "kimi-k2": PreTokenizer((_KIMI,), ignores_merges=True),
    "laguna": PreTokenizer((r"[^\n]+|\n+", _words(r"\p{N}"))),
    "lfm2": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
    "minimax-m2": _O200K,
    "olmo": PreTokenizer(gpt2_words=True, composes=True),
    "phi-2": PreTokenizer(gpt2_words=True),
    "pixtral": _LLAMA3,  # Nemotron, too
    "qwen2": _QWEN,  # Qwen 3 and MiMo, too
    "qwen35": PreTokenizer((_words(r"\p{N}", accents=r"\p{M}"),), composes=True),
    "refact": _SINGLE_DIGITS,  # Granite 3
    "seed-coder": PreTokenizer((_words(r"\p{N}", after_marks=""),)),  # Seed-OSS, too
    "smollm": _SINGLE_DIGITS,
    "starcoder": _SINGLE_DIGITS,
    "tekken": PreTokenizer((_cased_words(r"\p{N}"),), ignores_merges=True, adds_bos=True),  # Mistral Nemo
}
