"""LangChain's model for OpenAI's API."""

from __future__ import annotations

import json
import sys
from typing import Literal

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def paint(colour: Literal["red", "green"]) -> str:
    """Paint it."""
    return colour


def main() -> None:
    """Ask twice."""
    url = sys.argv[1] + "/v1"
    model = ChatOpenAI(base_url=url, api_key="none", model="any", temperature=0, max_retries=0)
    bound = model.bind_tools([paint], tool_choice="required", parallel_tool_calls=False)
    (call,) = bound.invoke("Paint it.").tool_calls
    print(json.dumps([call["name"], call["args"]]), flush=True)
    for _ in model.stream("Paint it.", max_tokens=4000, extra_body={"ignore_eos": True}):
        pass


if __name__ == "__main__":
    main()
