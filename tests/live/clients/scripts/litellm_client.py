"""LiteLLM, as it is used with a server that speaks OpenAI's API."""

from __future__ import annotations

import json
import sys

import litellm

TOOL = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    },
}


def main() -> None:
    """Ask twice."""
    asked = {
        "model": "openai/any",
        "api_base": sys.argv[1] + "/v1",
        "api_key": "none",
        "messages": [{"role": "user", "content": "Paint it."}],
        "temperature": 0,
    }
    answer = litellm.completion(**asked, tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    (call,) = answer.choices[0].message.tool_calls
    print(json.dumps([call.function.name, json.loads(call.function.arguments)]), flush=True)
    for _ in litellm.completion(**asked, stream=True, max_tokens=4000, extra_body={"ignore_eos": True}):
        pass


if __name__ == "__main__":
    main()
