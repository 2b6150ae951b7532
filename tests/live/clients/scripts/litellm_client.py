"""LiteLLM, as it is used with a server that speaks OpenAI's API."""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm


def main() -> None:
    """Ask twice."""
    asked: dict[str, Any] = {
        "model": "openai/any",
        "api_base": sys.argv[1] + "/v1",
        "api_key": "none",
        "messages": [{"role": "user", "content": "Paint it."}],
        "extra_body": {"ignore_eos": True},
    }
    print(json.dumps(litellm.completion(**asked, max_tokens=3).usage.completion_tokens), flush=True)
    for _ in litellm.completion(**asked, stream=True, max_tokens=4000):
        pass


if __name__ == "__main__":
    main()
