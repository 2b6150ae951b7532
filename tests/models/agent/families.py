"""Answers with calls, as models of each family write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.models.chat import templates

Arguments = dict[str, Any]
Calls = list[tuple[str, Arguments]]


@dataclass(frozen=True)
class Family:
    """Format in which one family writes.

    Attributes:
        name: for the test's own.
        template: of its models.
        write: returns the text of calls.
        thought: what stands before and behind a thought; None for models that do not think.
        said: what stands before and behind the text of an answer.
        parallel: an answer may have several calls.
        random_ids: its template shows the ids of calls, which each API makes anew.
    """

    name: str
    template: str
    write: Callable[[Sequence[tuple[str, Arguments]]], str]
    thought: tuple[str, str] | None = None
    said: tuple[str, str] = ("", "")
    parallel: bool = True
    random_ids: bool = False

    def answer(self, thought: str, text: str, calls: Sequence[tuple[str, Arguments]] = ()) -> str:
        """Return an answer; a thought only where the family has any."""
        before = self.thought[0] + thought + self.thought[1] if self.thought else ""
        said = self.said[0] + text + self.said[1] if text else ""
        return before + said + (self.write(calls) if calls else "")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _objects(calls: Sequence[tuple[str, Arguments]], key: str = "arguments") -> list[str]:
    return [_json({"name": name, key: arguments}) for name, arguments in calls]


def _hermes(calls: Sequence[tuple[str, Arguments]]) -> str:
    return "\n".join(f"<tool_call>\n{written}\n</tool_call>" for written in _objects(calls))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _qwen(calls: Sequence[tuple[str, Arguments]], line: str = "\n", frame: str = "tool_call") -> str:
    def call(name: str, arguments: Arguments) -> str:
        given = "".join(f"<parameter={key}>{line}{_plain(arguments[key])}{line}</parameter>\n" for key in arguments)
        return f"<{frame}>\n<function={name}>\n{given}</function>\n</{frame}>"

    return "\n".join(call(*one) for one in calls)


def _seed(calls: Sequence[tuple[str, Arguments]]) -> str:
    return _qwen(calls, "", "seed:tool_call")


def _glm(calls: Sequence[tuple[str, Arguments]]) -> str:
    def call(name: str, arguments: Arguments) -> str:
        given = "".join(
            f"<arg_key>{key}</arg_key>\n<arg_value>{_plain(value)}</arg_value>\n" for key, value in arguments.items()
        )
        return f"\n<tool_call>{name}\n{given}</tool_call>"

    return "".join(call(*one) for one in calls)


def _minimax(calls: Sequence[tuple[str, Arguments]]) -> str:
    def call(name: str, arguments: Arguments) -> str:
        given = "".join(f'<parameter name="{key}">{_plain(value)}</parameter>\n' for key, value in arguments.items())
        return f'<invoke name="{name}">\n{given}</invoke>\n'

    return f"\n<minimax:tool_call>\n{''.join(call(*one) for one in calls)}</minimax:tool_call>"


def _gemma(opening: str, closing: str, quote: str) -> Callable[[Sequence[tuple[str, Arguments]]], str]:
    def shown(value: object) -> str:
        return f"{quote}{value}{quote}" if isinstance(value, str) else _json(value)

    def call(name: str, arguments: Arguments) -> str:
        return f"{opening}call:{name}{{{','.join(f'{key}:{shown(arguments[key])}' for key in arguments)}}}{closing}"

    return lambda calls: "".join(call(*one) for one in calls)


def _kimi(calls: Sequence[tuple[str, Arguments]]) -> str:
    one = "<|tool_call_begin|>functions.{}:{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
    written = "".join(one.format(name, number, _json(given)) for number, (name, given) in enumerate(calls))
    return f"<|tool_calls_section_begin|>{written}<|tool_calls_section_end|>"


def _deepseek(calls: Sequence[tuple[str, Arguments]]) -> str:
    one = "<!tool~call~begin!>function<!tool~sep!>{}\n```json\n{}\n```<!tool~call~end!>"
    written = "\n".join(one.format(name, _json(given)) for name, given in calls)
    return templates.deepseek(f"<!tool~calls~begin!>{written}<!tool~calls~end!>")


def _harmony(calls: Sequence[tuple[str, Arguments]]) -> str:
    ((name, arguments),) = calls
    head = f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
    return f"{head}{_json(arguments)}<|call|>"


_THINK = ("<think>\n", "\n</think>\n\n")

FAMILIES = (
    Family("hermes", templates.HERMES, _hermes, _THINK),
    Family("generic", templates.CHATML, _hermes),
    Family("qwen-xml", templates.QWEN_XML, _qwen),
    Family("seed", templates.SEED, _seed),
    Family("glm", templates.GLM, _glm, _THINK),
    Family("minimax", templates.MINIMAX, _minimax, ("", "\n</think>\n\n")),
    Family(
        "gemma",
        templates.GEMMA_4,
        _gemma("<|tool_call>", "<tool_call|>", '<|"|>'),
        ("<|channel>thought\n", "<channel|>"),
    ),
    Family(
        "functiongemma", templates.FUNCTION_GEMMA, _gemma("<start_function_call>", "<end_function_call>", "<escape>")
    ),
    Family("kimi", templates.KIMI, _kimi),
    Family("mistral", templates.MISTRAL, lambda calls: f"[TOOL_CALLS][{', '.join(_objects(calls))}]", random_ids=True),
    Family(
        "mistral-named",
        templates.MISTRAL_NAMED,
        lambda calls: "".join(f"[TOOL_CALLS]{name}[ARGS]{_json(given)}" for name, given in calls),
    ),
    Family(
        "llama",
        templates.LLAMA,
        lambda calls: f"<|python_tag|>{'; '.join(_objects(calls, 'parameters'))}",
        parallel=False,
    ),
    Family("deepseek", templates.DEEPSEEK, _deepseek),
    Family("listed", templates.LISTED, lambda calls: f"<|tool_call|>[{', '.join(_objects(calls))}]<|/tool_call|>"),
    Family(
        "harmony",
        templates.HARMONY,
        _harmony,
        ("<|channel|>analysis<|message|>", "<|end|>"),
        ("<|start|>assistant<|channel|>final<|message|>", "<|end|>"),
        parallel=False,
    ),
)
