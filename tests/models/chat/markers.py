"""Markers by which formats of calls mean something, and what else is hard to write down, as texts of arguments."""

from __future__ import annotations

MARKERS = (
    *("<tool_call>", "</tool_call>", "<think>", "<function=write>", "</function>", "</parameter>", "<parameter=other>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", '<invoke name="write">', "</invoke>", "[ARGS]"),
    *('<parameter name="other">', "</minimax:tool_call>", "</seed:tool_call>", "<|tool_call>", "<tool_call|>"),
    *("[TOOL_CALLS]", "[CALL_ID]", "<|tool_call|>", "<|/tool_call|>", "<|python_tag|>", "<|channel|>", "<|call|>"),
    *("<|tool_call_end|>", "<|tool_calls_section_end|>", "call:write{", "```", "\n", " ", "\r\n", "\t", "\\", '"', "'"),
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\\n",
        "\\u00e9",
        "\\",
        "C:\\Users",
        "é",
        "\N{GRINNING FACE}",
        "\0",
        "\x1f",
        "null",
    ),
)
