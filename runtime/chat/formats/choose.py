"""Which format a model's tool calls have."""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING

from runtime.chat.formats import deepseek, harmony, hermes, listed, llama, mistral, qwen_xml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.chat.formats.format import ToolFormat


class ToolFormatName(enum.StrEnum):
    """The formats, by the names that `--tool-format` has for them."""

    DEEPSEEK = "deepseek"
    GENERIC = "generic"
    HARMONY = "harmony"
    HERMES = "hermes"
    LISTED = "listed"
    LLAMA = "llama"
    MISTRAL = "mistral"
    QWEN_XML = "qwen-xml"


_SIGNS = (
    (ToolFormatName.HARMONY, (harmony.CHANNEL, harmony.MESSAGE)),
    (ToolFormatName.DEEPSEEK, (deepseek.CALLS_BEGIN,)),
    (ToolFormatName.MISTRAL, (mistral.CALLS,)),
    (ToolFormatName.QWEN_XML, (qwen_xml.FUNCTION, qwen_xml.PARAMETER)),
    (ToolFormatName.HERMES, (hermes.OPENING,)),
    (ToolFormatName.LISTED, (listed.OPENING,)),
    (ToolFormatName.LISTED, ("<|tool|>",)),
    (ToolFormatName.LLAMA, (llama.TAG,)),
    (ToolFormatName.LLAMA, ('"parameters": ', '{"name": ')),
)
"""What stands in the templates of each format; the first that fits is taken."""

_OTHERS = ("<arg_key>",)
"""What stands in the templates of formats that cede does not know, beside what looks like another."""


def find_format(source: str, response_template: Mapping[str, object] | None = None) -> ToolFormatName | None:
    """Return the format of a model; None where its templates show none that cede knows.

    Args:
        source: of its chat template.
        response_template: how transformers is to read its answers, if its files say so; that comes first.
    """
    read = json.dumps(response_template, ensure_ascii=False).replace("\\", "")  # regular expressions are among it
    return _shown_in(read) or _shown_in(source)


def _shown_in(source: str) -> ToolFormatName | None:
    if any(sign in source for sign in _OTHERS):
        return None
    return next((name for name, signs in _SIGNS if all(sign in source for sign in signs)), None)


def make_format(name: ToolFormatName, source: str = "") -> ToolFormat:
    """Make a format.

    Args:
        name: of the format.
        source: of the template, which shows which of its forms a model writes.
    """
    match name:
        case ToolFormatName.DEEPSEEK:
            return deepseek.DeepSeek(fenced="```json" in source)
        case ToolFormatName.HARMONY:
            return harmony.Harmony()
        case ToolFormatName.LISTED:
            return listed.Listed()
        case ToolFormatName.LLAMA:
            return llama.Llama()
        case ToolFormatName.MISTRAL:
            return mistral.Mistral(named=mistral.ARGUMENTS in source)
        case ToolFormatName.QWEN_XML:
            return qwen_xml.QwenXml()
        case ToolFormatName.HERMES | ToolFormatName.GENERIC:
            return hermes.Hermes()
