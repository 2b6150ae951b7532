"""The bytes of one token, by rules compiled from the decoder of `tokenizer.json`.

The `tokenizers` library decodes whole lists of ids.  Its `DecodeStream` does not suit a server: it holds back
everything from an invalid byte to the next valid one, and decodes all of that again at each token, so a model that
emits garbage is silent and quadratic (measured: 4,000 stray continuation bytes take 1.6 s and give no text).  The
decoders of generative checkpoints all do the same to a token wherever it stands, the beginning of the text apart; so
they are compiled here into the bytes of a token and a rule for the beginning.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class PieceRules:
    """Effects of a decoder of `tokenizer.json` on one token, and on the beginning of the whole text.

    Attributes:
        steps: applied in order, until one returns bytes.
        fused: the tokens were joined, so a later step sees one text.
        errors: the handler for invalid UTF-8.
        strip: the character that is removed from the beginning of the text.
        strip_count: how often it is removed at most.
        drop_in_first: the character that vanishes from the first token (Metaspace).
    """

    steps: tuple[Callable[[str], str | bytes], ...] = ()
    fused: bool = False
    errors: str = "replace"
    strip: str = ""
    strip_count: int = 0
    drop_in_first: str = ""

    def piece(self, token: str) -> bytes:
        """Return the bytes of a token, given its spelling in the vocabulary."""
        for step in self.steps:
            result = step(token)
            if isinstance(result, bytes):
                return result
            token = result
        return token.encode()

    def first_piece(self, token: str) -> bytes:
        """Return the bytes of the token that begins a text."""
        return self.piece(token.replace(self.drop_in_first, "") if self.drop_in_first else token)


def compile_decoder(description: Mapping[str, Any]) -> PieceRules:
    """Compile the `decoder` object of a `tokenizer.json`.

    Raises:
        CheckpointError: its effect on a token depends on the neighbours (WordPiece, CTC, ...).  No generative
            checkpoint that cede runs has such a decoder.
    """
    rules = PieceRules()
    parts = description["decoders"] if description["type"] == "Sequence" else [description]
    for part in parts:
        rules = _add_step(rules, part)
    return rules


def _add_step(rules: PieceRules, part: Mapping[str, Any]) -> PieceRules:
    match part:
        case {"type": "ByteLevel"}:
            return replace(rules, steps=(*rules.steps, _byte_level), fused=True)
        case {"type": "ByteFallback"}:
            return replace(rules, steps=(*rules.steps, _byte_fallback), errors=EACH_BYTE)
        case {"type": "Fuse"}:
            return replace(rules, fused=True)
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if not rules.fused:
            return replace(rules, steps=(*rules.steps, _replacer(old, new)))
        case {"type": "Metaspace", "replacement": str(mark), "prepend_scheme": scheme} if not rules.fused:
            steps = (*rules.steps, _replacer(mark, " "))
            return replace(rules, steps=steps, drop_in_first="" if scheme == "never" else mark)
        case {"type": "Strip", "content": str(char), "start": int(count), "stop": 0} if rules.fused:
            return replace(rules, strip=char, strip_count=count)
    raise CheckpointError(f"tokenizer.json has a decoder that cede cannot stream: {json.dumps(part)}")


def _replacer(old: str, new: str) -> Callable[[str], str]:
    return lambda token: token.replace(old, new)


def _byte_alphabet() -> dict[str, int]:
    """Return byte-level BPE's spelling of each byte (GPT-2, Radford et al. 2019).

    Printable Latin-1 stands for itself; the others take the code points from 256 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    try:
        return bytes([BYTE_ALPHABET[char] for char in token])
    except KeyError:  # an added token, spelled in plain text
        return token.encode()


def _byte_fallback(token: str) -> str | bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes.fromhex(token[3:5])
        except ValueError:
            pass
    return token


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\N{REPLACEMENT CHARACTER}" * (error.end - error.start), error.end


# For a broken character the library's ByteFallback shows one U+FFFD per byte, Python's "replace" a single one.
EACH_BYTE = "cede.replace-each-byte"
codecs.register_error(EACH_BYTE, _replace_each_byte)
