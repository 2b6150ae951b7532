"""A tokenizer that needs no vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BOS = 256


class ByteTokenizer:
    """A token is a byte."""

    longest_token = 1

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the bytes of a text as ids, after the id that begins a text."""
        return [BOS] * add_special_tokens + list(text.encode())

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text whose bytes these ids are."""
        return bytes(i for i in ids if i < BOS).decode()

    def token_bytes(self, token_id: int) -> bytes:
        """Return the byte that an id stands for."""
        return bytes([token_id]) if token_id < BOS else b"<s>"

    def token_id(self, token: str) -> int | None:
        """Return None: no token has a name."""
        return None

    def token_text(self, token_id: int) -> str:
        """Return how an id is shown where its byte alone is no text."""
        return self.token_bytes(token_id).decode("utf-8", "backslashreplace")


STARCODER = {"<fim_prefix>": 1, "<fim_suffix>": 2, "<fim_middle>": 3}


class InfillTokenizer(ByteTokenizer):
    """One of a model that fills gaps: bytes that no text has stand for its tokens, by default for StarCoder's."""

    def __init__(self, names: Mapping[str, int] = STARCODER) -> None:
        self._names = names

    def token_id(self, token: str) -> int | None:
        """Return the id of a named token."""
        return self._names.get(token)
