"""LangChain's model for OpenAI's API."""

from __future__ import annotations

import json
import sys

from langchain_openai import ChatOpenAI
from pydantic import SecretStr


def main() -> None:
    """Ask twice."""
    url = sys.argv[1] + "/v1"
    model = ChatOpenAI(
        base_url=url, api_key=SecretStr("none"), model="any", max_retries=0, extra_body={"ignore_eos": True}
    )
    usage = model.invoke("Paint it.", max_tokens=3).usage_metadata
    print(json.dumps(usage and usage["output_tokens"]), flush=True)
    for _ in model.stream("Paint it.", max_tokens=4000):
        pass


if __name__ == "__main__":
    main()
