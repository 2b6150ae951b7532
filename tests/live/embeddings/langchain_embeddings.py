"""LangChain's embeddings for OpenAI's API, which cuts texts into tokens itself and sends their ids.

It does so with a vocabulary of OpenAI's unless told otherwise; here one of bytes takes its place.
"""

from __future__ import annotations

import json
import sys

import tiktoken
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr
from tiktoken.model import MODEL_TO_ENCODING
from tiktoken.registry import ENCODINGS

MODEL = "bytes-model"


def main() -> None:
    """Embed two texts, of which the second is longer than a chunk."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    ENCODINGS["bytes"] = tiktoken.Encoding("bytes", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={})
    MODEL_TO_ENCODING[MODEL] = "bytes"
    url = sys.argv[1] + "/v1"
    model = OpenAIEmbeddings(base_url=url, api_key=SecretStr("none"), model=MODEL, max_retries=0)
    print(json.dumps([*model.embed_documents(["import os", "def add(a, b):"]), model.embed_query("import os")]))


if __name__ == "__main__":
    main()
