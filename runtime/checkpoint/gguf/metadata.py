"""The keys and values of a GGUF file's header, looked up by the type that the reader expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from runtime.errors import CheckpointError

Scalar = TypeVar("Scalar", str, int, float, bool)


class Metadata(Mapping[str, Any]):
    """Keys in the file's order.  A value is a `str`, `int`, `float`, `bool`, or a list of one of these.

    Args:
        file: the file's name, for messages.
        values: what it says.
    """

    def __init__(self, file: str, values: Mapping[str, Any]) -> None:
        self.file = file
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        """Return the value as it is in the file."""
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._values)

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._values)

    def find(self, key: str, kind: type[Scalar]) -> Scalar | None:
        """Return the value of a key; None where the file has no such key.

        Raises:
            CheckpointError: it is of another type; only a whole number is taken for a `float`.
        """
        value = self._values.get(key)
        if value is None:
            return None
        if kind is float and type(value) is int:
            return kind(value)
        if type(value) is not kind:
            raise self.invalid(key, f"is {_shown(value)}, and should be of type {kind.__name__}")
        return value

    def require(self, key: str, kind: type[Scalar]) -> Scalar:
        """Return the value of a key.

        Raises:
            CheckpointError: there is none, or it is of another type.
        """
        value = self.find(key, kind)
        if value is None:
            raise self.invalid(key, "is missing")
        return value

    def find_list(self, key: str, kind: type[Scalar]) -> list[Scalar] | None:
        """Return the list under a key; None where the file has no such key.

        Raises:
            CheckpointError: it is no list, or one of another type.
        """
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or (value and type(value[0]) is not kind):  # all entries are of one type
            raise self.invalid(key, f"is {_shown(value)}, and should be a list of type {kind.__name__}")
        return value

    def require_list(self, key: str, kind: type[Scalar]) -> list[Scalar]:
        """Return the list under a key.

        Raises:
            CheckpointError: there is none, or it is of another type.
        """
        value = self.find_list(key, kind)
        if value is None:
            raise self.invalid(key, "is missing")
        return value

    def invalid(self, key: str, why: str) -> CheckpointError:
        """Return the error to raise for one key's value."""
        return CheckpointError(f"{self.file}: {key} {why}")


def _shown(value: object) -> str:
    """Return a value as a message shows it, whatever its length."""
    if isinstance(value, list):
        return f"a list of {len(value)}, {_shown(value[0])} first" if value else "an empty list"
    return f"{value!r:.60}"
