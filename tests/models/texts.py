"""Texts of every kind that a tokenizer may meet, made up by a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Sequence

_RANGES = {  # first and last code point
    "ascii": (0x20, 0x7E),
    "latin": (0xA1, 0x24F),
    "greek": (0x370, 0x3FF),
    "cyrillic": (0x400, 0x4FF),
    "hebrew": (0x5D0, 0x5EA),
    "arabic": (0x620, 0x66F),
    "devanagari": (0x900, 0x97F),
    "thai": (0xE01, 0xE5B),
    "hangul": (0xAC00, 0xACFF),
    "jamo": (0x1100, 0x11FF),
    "kana": (0x3041, 0x30FF),
    "han": (0x4E00, 0x4FFF),
    "rare han": (0x20000, 0x200FF),
    "punctuation": (0x2000, 0x206F),
    "wide": (0xFF01, 0xFF5E),
    "emoji": (0x1F300, 0x1F6FF),
    "mathematical": (0x1D400, 0x1D4FF),
    "control": (0x01, 0x1F),
    "beside surrogates": (0xD7F0, 0xD7FF),
    "private": (0xE000, 0xE00F),
    "beyond": (0x10FFF0, 0x10FFFF),
}
# fmt: off
_PIECES = (
    *(" " * n for n in (1, 1, 1, 2, 3, 4, 7, 8, 16, 31, 40)), *("\n" * n for n in (1, 1, 2, 3, 33)),
    "\t", "\t\t", "\r\n", "\r", "\n \n", " \n\t", "\u00a0", "\u3000", "\u2028", "\ufeff", "\v", "\f", "\x85",
    "0", "7", "42", "007", "1999", "123456789", "3.14159", "1,000,000", "0x1F", "1e-9", "²³", "½", "٣٤٥", "Ⅷ", "१२",
    "'s", "'LL", "don't", "WE'VE", "\u2019s", "it's", "O'Neill", "'", "''",
    "The quick brown fox", " jumps", "Hello", "world", "HTTPServer", "camelCase", "snake_case", "internationalisation",
    "def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {", "}\n\n", "x != y", "->", "// ===", "a[i][j]",
    "<html>", "</div>", "&amp;", "https://example.org/a?b=c&d=%20", "name@example.org", '{"key": [1, null]}',
    "=====", "-" * 17, "###", "zzzzzzz", "aaaa", "hahahaha", "....", "!?!?", "___",
    "e\u0301", "\u00e9", "A\u030a", "o\u0328\u0301", "\u0915\u094d\u0937", "\u1100\u1161\u11a8", "\ufb01", "\u017f",
    "👩\u200d👩\u200d👧\u200d👦", "👍🏽", "🇩🇪", "❤\ufe0f", "1\ufe0f\u20e3", "🏴\U000e0067\U000e0062\U000e007f", "🙂",
    "日本語のテキスト", "中文文本\uff0c没有空格。", "한국어", "русский текст", "ελληνικά", "שלום", "مرحبا بالعالم",
    "हिन्दी", "ภาษาไทย",
    "▁", "▁▁", "Ġ", "Ċ", "<0x0A>", "<0xE9>", "\x00", "\x04", "\x7f", "\u200b", "\u200d", "\u202e", "\ufffd", "\ufffe",
    "<|", "|>", "<|endoftext", "endoftext|>", "< |im_end|>", "<|IM_END|>", "[INST]", "<unused", "<start_of", "</ s>",
)
# fmt: on


def texts(count: int, *, seed: int = 0, specials: Sequence[str] = ()) -> list[str]:
    """Make up texts of one to twelve pieces: words, code, digits, runs of spaces, scripts, look-alikes of specials.

    Args:
        count: how many.
        seed: of the generator.
        specials: tokens that some of the texts hold as they are.
    """
    chance = random.Random(seed)
    pieces = [*_PIECES, *specials]
    return ["".join(_piece(chance, pieces) for _ in range(chance.randint(1, 12))) for _ in range(count)]


def _piece(chance: random.Random, pieces: Sequence[str]) -> str:
    kind = chance.random()
    if kind < 0.7:
        return chance.choice(pieces)
    first, last = chance.choice(list(_RANGES.values()))
    return "".join(chr(chance.randint(first, last)) for _ in range(chance.randint(1, 6)))
