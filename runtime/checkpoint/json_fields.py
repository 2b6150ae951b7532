"""Reading the JSON files of a checkpoint: one value at a time, and every refusal names its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

Settings = Mapping[str, Any]


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in the file at `path`.  Raises CheckpointError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file, so this folder holds no model") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: is not a JSON object")
    return value


def wrong(key: str, value: object, why: str) -> CheckpointError:
    """The refusal of one key's value, to be raised."""
    return CheckpointError(f"config.json: {key} {value!r} {why}")


def integer(settings: Settings, key: str, *, least: int = 1) -> int:
    """The whole number under `key`, which must be there and `least` or more."""
    value = settings.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise wrong(key, value, f"is not a whole number from {least} up")
    return value


def number(settings: Settings, key: str) -> float:
    """The number above 0 under `key`, which must be there."""
    value = settings.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise wrong(key, value, "is not a number above 0")
    return float(value)


def switch(settings: Settings, key: bool | str) -> bool:
    """The truth value under `key`; or `key` itself, where a family leaves no choice."""
    if isinstance(key, bool):
        return key
    if not isinstance(settings[key], bool):
        raise wrong(key, settings[key], "is neither true nor false")
    return bool(settings[key])
