"""Choice of the format of a model's tool calls."""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING

from runtime.chat.formats import (
    deepseek,
    gemma,
    glm,
    harmony,
    hermes,
    kimi,
    listed,
    llama,
    minimax,
    mistral,
    qwen_xml,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.chat.formats.format import ToolFormat


class ToolFormatName(enum.StrEnum):
    """The formats, by the names that `--tool-format` has for them."""

    DEEPSEEK = "deepseek"
    GEMMA = "gemma"
    GENERIC = "generic"
    GLM = "glm"
    HARMONY = "harmony"
    HERMES = "hermes"
    KIMI = "kimi"
    LISTED = "listed"
    LLAMA = "llama"
    MINIMAX = "minimax"
    MISTRAL = "mistral"
    QWEN_XML = "qwen-xml"


_SIGNS = (
    (ToolFormatName.HARMONY, (harmony.CHANNEL, harmony.MESSAGE)),
    (ToolFormatName.DEEPSEEK, (deepseek.CALLS_BEGIN,)),
    (ToolFormatName.MISTRAL, (mistral.CALLS,)),
    (ToolFormatName.KIMI, (kimi.CALLS_BEGIN,)),
    (ToolFormatName.KIMI, ("tool_declare<|im_middle|>",)),
    (ToolFormatName.MINIMAX, (minimax.OPENING,)),
    (ToolFormatName.GEMMA, (gemma.GEMMA_4.opening,)),
    (ToolFormatName.GEMMA, (gemma.FUNCTION_GEMMA.opening,)),
    (ToolFormatName.GLM, (hermes.OPENING, glm.KEY)),
    (ToolFormatName.QWEN_XML, (qwen_xml.FUNCTION, qwen_xml.PARAMETER)),
    (ToolFormatName.HERMES, (hermes.OPENING,)),
    (ToolFormatName.LISTED, (listed.OPENING,)),
    (ToolFormatName.LISTED, ("<|tool|>",)),
    (ToolFormatName.LLAMA, (llama.TAG,)),
    (ToolFormatName.LLAMA, ('"parameters": ', '{"name": ')),
)
"""What stands in the templates of each format; the first that fits is taken."""


def find_format(source: str, response_template: Mapping[str, object] | None = None) -> ToolFormatName | None:
    """Return the format of a model; None where its templates show none that cede knows.

    Args:
        source: of its chat template.
        response_template: how transformers is to read its answers, if its files say so; that comes first.
    """
    read = json.dumps(response_template, ensure_ascii=False).replace("\\", "")  # regular expressions are among it
    return _shown_in(read) or _shown_in(source)


def _shown_in(source: str) -> ToolFormatName | None:
    return next((name for name, signs in _SIGNS if all(sign in source for sign in signs)), None)


def make_format(name: ToolFormatName, source: str = "") -> ToolFormat:
    """Make a format.

    Args:
        name: of the format.
        source: of the template, which shows which of its forms a model writes.
    """
    return _MAKERS[name](source)


def _glm(source: str) -> glm.Glm:
    return glm.Glm(lines=any(f"{glm.KEY_END}{line}" in source for line in ("\n", "\\n")))


def _gemma(source: str) -> gemma.Gemma:
    return gemma.Gemma(gemma.FUNCTION_GEMMA if gemma.FUNCTION_GEMMA.opening in source else gemma.GEMMA_4)


_MAKERS: dict[ToolFormatName, Callable[[str], ToolFormat]] = {
    ToolFormatName.DEEPSEEK: lambda source: deepseek.DeepSeek(fenced="```json" in source),
    ToolFormatName.GEMMA: _gemma,
    ToolFormatName.GENERIC: lambda _: hermes.Hermes(),
    ToolFormatName.GLM: _glm,
    ToolFormatName.HARMONY: lambda _: harmony.Harmony(),
    ToolFormatName.HERMES: lambda _: hermes.Hermes(),
    ToolFormatName.KIMI: lambda _: kimi.Kimi(),
    ToolFormatName.LISTED: lambda _: listed.Listed(),
    ToolFormatName.LLAMA: lambda _: llama.Llama(),
    ToolFormatName.MINIMAX: lambda _: minimax.MiniMax(),
    ToolFormatName.MISTRAL: lambda source: mistral.Mistral(named=mistral.ARGUMENTS in source),
    ToolFormatName.QWEN_XML: lambda source: qwen_xml.QwenXml(seed=qwen_xml.SEED_OPENING in source),
}
