"""Which format a model's tool calls have."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from runtime.chat.formats.hermes import Hermes

if TYPE_CHECKING:
    from runtime.chat.formats.format import ToolFormat


class ToolFormatName(enum.StrEnum):
    """The formats, by the names that `--tool-format` has for them."""

    HERMES = "hermes"
    GENERIC = "generic"


_SIGNS = ((ToolFormatName.HERMES, ("<tool_call>",)),)
"""What stands in the templates of each format; the first that fits is taken."""


def find_format(source: str) -> ToolFormatName | None:
    """Return the format that a template's source shows; None where it shows none that cede knows."""
    return next((name for name, signs in _SIGNS if all(sign in source for sign in signs)), None)


def make_format(name: ToolFormatName) -> ToolFormat:
    """Make a format by its name."""
    match name:
        case ToolFormatName.HERMES | ToolFormatName.GENERIC:
            return Hermes()
