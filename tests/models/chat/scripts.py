"""An answer as each format has it: what was thought, text, and two calls with difficult arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from runtime.chat.conversation import Tool
from tests.models.chat import templates
from tests.models.chat.answers import Answer, Call

ARGUMENTS = {
    "place": 'Köln 東京 \N{GRINNING FACE} "a" {b} \\ </tool_call> ]\n\n',
    "deep": [{"a": [[], {}]}],
    "n": 10**40,
    "ok": True,
}
TRICKY = json.dumps(ARGUMENTS, ensure_ascii=False)
PLACE = {"place": {"type": "string"}}
TOOLS = (
    Tool(
        "weather",
        "Tells it.",
        {
            "type": "object",
            "properties": {
                **PLACE,
                "deep": {"type": "array"},
                "n": {"type": "integer"},
                "ok": {"type": ["boolean", "null"]},
            },
            "required": ["place", "n"],
            "additionalProperties": False,
        },
        strict=True,
    ),
    Tool("now"),
)
CALLS = [Call("weather", TRICKY, whole=True), Call("now", "{}", whole=True)]


@dataclass(frozen=True)
class Script:
    """An answer of one format.

    Attributes:
        format: its name.
        template: of a model that has it.
        text: the answer.
        says: what it says.
        tokens: its special tokens.
        thinking: what ends the thought that the prompt has begun.
        wrong: replaces a part of the text, so that an argument has another type than the tool's schema wants.
    """

    format: str
    template: str
    text: str
    says: Answer
    tokens: tuple[str, ...] = ()
    wrong: tuple[str, str] = (f"{10**40}", '"many"')
    thinking: str = ""

    @property
    def violation(self) -> str:
        """The answer with an argument that the schema forbids."""
        assert self.wrong[0] in self.text
        return self.text.replace(*self.wrong)


def _objects(key: str = "arguments") -> tuple[str, str]:
    return f'{{"name": "weather", "{key}": {TRICKY}}}', f'{{"name": "now", "{key}": {{}}}}'


_THOUGHT = "<think>\nWhat now?\n</think>\n\n"
_FIRST, _SECOND = _objects()
_LLAMA_FIRST, _LLAMA_SECOND = _objects("parameters")
_SAID = Answer("What now?", ["I look.", "", "That is all."], CALLS)
_UNTHOUGHT = Answer("", ["I look.", "", ""], CALLS)
_TAGS = "".join(
    f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
    for name, value in ARGUMENTS.items()
)


def _gemma(opening: str, closing: str, quote: str) -> str:
    """Two calls as Gemma writes them, and text before."""

    def shown(value: object) -> str:
        match value:
            case str():
                return f"{quote}{value}{quote}"
            case list():
                return f"[{','.join(map(shown, value))}]"
            case dict():
                return f"{{{','.join(f'{key}:{shown(inner)}' for key, inner in sorted(value.items()))}}}"
            case _:
                return json.dumps(value)

    return f"I look.{opening}call:weather{shown(ARGUMENTS)}{closing}{opening}call:now{{}}{closing}"


# Its arguments come sorted.
_GEMMA_SAID = [Call("weather", json.dumps(dict(sorted(ARGUMENTS.items())), ensure_ascii=False), whole=True), CALLS[1]]
_GEMMA_4 = ("<|tool_call>", "<tool_call|>", '<|"|>')
_FUNCTION_GEMMA = ("<start_function_call>", "<end_function_call>", "<escape>")
_PLAIN_VALUES = {name: value if isinstance(value, str) else json.dumps(value) for name, value in ARGUMENTS.items()}


def _glm(line: str) -> str:
    arguments = "".join(
        f"<arg_key>{name}</arg_key>{line}<arg_value>{value}</arg_value>{line}" for name, value in _PLAIN_VALUES.items()
    )
    return f"I look.\n<tool_call>weather{line}{arguments}</tool_call>\n<tool_call>now{line}</tool_call>"


# A line break at the end of a value would be read as the tag's, which it is in Qwen's form.
_SEED_VALUES = {**_PLAIN_VALUES, "place": _PLAIN_VALUES["place"].rstrip("\n")}
_SEED_SAID = json.dumps({**ARGUMENTS, "place": _SEED_VALUES["place"]}, ensure_ascii=False)
_KIMI = (
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
)

SCRIPTS = (
    Script(
        "hermes",
        templates.HERMES,
        f"{_THOUGHT}I look.\n\n<tool_call>\n{_FIRST}\n</tool_call>\n<tool_call>\n{_SECOND}\n</tool_call>\nThat is all.",
        _SAID,
    ),
    Script(
        "generic",
        templates.CHATML,
        f"I look.\n<tool_call>{_FIRST}</tool_call><tool_call>{_SECOND}</tool_call>",
        _UNTHOUGHT,
    ),
    Script(
        "qwen-xml",
        templates.QWEN_XML,
        f"I look.\n<tool_call>\n<function=weather>\n{_TAGS}</function>\n</tool_call>\n"
        "<tool_call>\n<function=now>\n</function>\n</tool_call>",
        _UNTHOUGHT,
    ),
    Script(
        "mistral",
        templates.MISTRAL,
        f"I look.[TOOL_CALLS][{_FIRST}, {_SECOND}]",
        _UNTHOUGHT,
        ("[TOOL_CALLS]",),
    ),
    Script(
        "mistral",
        templates.MISTRAL_NAMED,
        f"I look.[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{TRICKY}[TOOL_CALLS]now[ARGS]{{}}",
        Answer("", ["I look.", "", ""], [Call("weather", TRICKY, "abcdefghi", whole=True), CALLS[1]]),
        ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    ),
    Script(
        "llama",
        templates.LLAMA,
        f"{_LLAMA_FIRST}; {_LLAMA_SECOND}",
        Answer("", ["", "", ""], CALLS),
        ("<|python_tag|>",),
    ),
    Script(
        "llama",
        templates.LLAMA,
        f"I look. <|python_tag|>{_LLAMA_FIRST};{_LLAMA_SECOND}",
        _UNTHOUGHT,
        ("<|python_tag|>",),
    ),
    Script(
        "deepseek",
        templates.DEEPSEEK,
        templates.deepseek(
            "I look.<!tool~calls~begin!><!tool~call~begin!>function<!tool~sep!>weather\n```json\n"
            f"{TRICKY}\n```<!tool~call~end!>\n<!tool~call~begin!>function<!tool~sep!>now\n```json\n{{}}\n```"
            "<!tool~call~end!><!tool~calls~end!>"
        ),
        _UNTHOUGHT,
        tuple(map(templates.deepseek, ("<!tool~calls~begin!>", "<!tool~calls~end!>", "<!tool~sep!>"))),
    ),
    Script(
        "deepseek",
        templates.DEEPSEEK_31,
        templates.deepseek(
            f"I look.<!tool~calls~begin!><!tool~call~begin!>weather<!tool~sep!>{TRICKY}<!tool~call~end!>"
            "<!tool~call~begin!>now<!tool~sep!>{}<!tool~call~end!><!tool~calls~end!>"
        ),
        _UNTHOUGHT,
    ),
    Script(
        "listed",
        templates.LISTED,
        f"I look.<|tool_call|>[{_FIRST}, {_SECOND}]<|/tool_call|>",
        _UNTHOUGHT,
        ("<|tool_call|>", "<|/tool_call|>"),
    ),
    Script("gemma", templates.GEMMA_4, _gemma(*_GEMMA_4), Answer("", ["I look.", "", ""], _GEMMA_SAID), _GEMMA_4),
    Script(
        "gemma",
        templates.GEMMA_4,
        f"<|channel>thought\nWhat now?\n<channel|>{_gemma(*_GEMMA_4)}",
        Answer("What now?", ["I look.", "", ""], _GEMMA_SAID),
        (*_GEMMA_4, "<|channel>", "<channel|>"),
    ),
    Script(
        "gemma",
        templates.FUNCTION_GEMMA,
        _gemma(*_FUNCTION_GEMMA),
        Answer("", ["I look.", "", ""], _GEMMA_SAID),
        _FUNCTION_GEMMA,
    ),
    Script("glm", templates.GLM, f"\n{_THOUGHT}{_glm(chr(10))}", Answer("What now?", ["I look.", "", ""], CALLS)),
    Script(
        "glm",
        templates.GLM_47,
        _glm(""),
        _UNTHOUGHT,
        ("<tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    Script(
        "kimi",
        templates.KIMI,
        "I look.{0}{1}functions.weather:0{2}{TRICKY}{3}{1}functions.now:1{2}{{}}{3}{4}".format(*_KIMI, TRICKY=TRICKY),
        Answer(
            "",
            ["I look.", "", ""],
            [replace(CALLS[0], id="functions.weather:0"), replace(CALLS[1], id="functions.now:1")],
        ),
        _KIMI,
    ),
    Script(
        "minimax",
        templates.MINIMAX,
        "What now?\n</think>\n\nI look.\n<minimax:tool_call>\n"
        '<invoke name="weather">\n'
        + "".join(f'<parameter name="{name}">{value}</parameter>\n' for name, value in _PLAIN_VALUES.items())
        + '</invoke>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>',
        Answer("What now?", ["I look.", "", ""], CALLS),
        ("<minimax:tool_call>", "</minimax:tool_call>"),
        thinking="</think>",
    ),
    Script(
        "qwen-xml",
        templates.SEED,
        "I look.\n<seed:tool_call>\n<function=weather>\n"
        + "".join(f"<parameter={name}>{value}</parameter>\n" for name, value in _SEED_VALUES.items())
        + "</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
        Answer("", ["I look.", "", ""], [Call("weather", _SEED_SAID, whole=True), CALLS[1]]),
        ("<seed:tool_call>", "</seed:tool_call>"),
    ),
    Script(
        "harmony",
        templates.HARMONY,
        "<|channel|>analysis<|message|>What now?<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        f"<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{TRICKY}",
        Answer("What now?", ["I look.", ""], CALLS[:1]),
        ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"),
    ),
)
