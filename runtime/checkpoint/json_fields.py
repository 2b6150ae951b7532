"""Reading the JSON files of a checkpoint: one value at a time; every error names the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.unreadable import unreadable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

Settings = Mapping[str, Any]

# No size or count of a model is larger; and the bytes of a matrix of such a size by such a size still fit 64 bits.
MAX_INTEGER = 1 << 24


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in the file at `path`.

    Raises:
        CheckpointError: there is no such file, or it is not a JSON object.
    """
    value = read_optional_object(path)
    if value is None:
        raise CheckpointError(f"{path}: there is no such file, so this folder holds no model")
    return value


def read_optional_object(path: Path) -> dict[str, Any] | None:
    """Read the JSON object in the file at `path`; None where there is no such file.

    Raises:
        CheckpointError: the file is not a JSON object, or cannot be read.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise unreadable(path, "JSON", error) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: is not a JSON object")
    return value


def invalid(key: str, value: object, why: str) -> CheckpointError:
    """Return the error to raise for one key's value."""
    return CheckpointError(f"config.json: {key} {value!r} {why}")


def section(settings: Settings, key: str) -> Settings:
    """Return the object under `key`, which must be there; else raise CheckpointError."""
    value = settings.get(key)
    if not isinstance(value, Mapping):
        raise invalid(key, value, "is not an object")
    return value


def integer(settings: Settings, key: str, *, minimum: int = 1) -> int:
    """Return the whole number under `key`, which must be there and in reason; else raise CheckpointError."""
    value = settings.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise invalid(key, value, f"is not a whole number from {minimum} up")
    if value > MAX_INTEGER:
        raise invalid(key, value, f"is more than {MAX_INTEGER}, which no model has")
    return value


def number(settings: Settings, key: str) -> float:
    """Return the number above 0 under `key`, which must be there; else raise CheckpointError."""
    value = settings.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise invalid(key, value, "is not a number above 0")
    return float(value)


def numbers(settings: Settings, key: str, count: int) -> tuple[float, ...]:
    """Return so many numbers above 0, the list under `key`; else raise CheckpointError."""
    values = settings.get(key)
    if not isinstance(values, list) or len(values) != count:
        raise invalid(key, values, f"is not a list of {count} numbers")
    return tuple(number({key: value}, key) for value in values)


def boolean(settings: Settings, key: bool | str) -> bool:
    """Return the truth value under `key`, or `key` itself where a family leaves no choice."""
    if isinstance(key, bool):
        return key
    if not isinstance(settings[key], bool):
        raise invalid(key, settings[key], "is neither true nor false")
    return bool(settings[key])
