"""Streams on which no text comes for long, as while a long prompt is read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import openai
import pytest

from tests.live.cluster.clusters import MODEL, chat
from tests.live.cluster.parts import Parts
from tests.live.server import PATIENCE
from web.cluster.settings import BEAT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

SILENCE = 5
"""Seconds without a sign of life after which a worker is taken to be dead; twice that, and a stream is ended."""
SIGNS = 8 + round(2 * SILENCE / BEAT_SECONDS) + 1
"""So many take longer than twice that: eight in the first 2.5 seconds, then one with each beat."""
TOKENS, PROMPT = 12, "class Tree:"


def chatted(client: openai.OpenAI) -> str:
    """Return what OpenAI's client makes of a chat that streams."""
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": PROMPT}]
    chunks = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=TOKENS, temperature=0, stream=True
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def completed(client: openai.OpenAI) -> str:
    """The same of a completion."""
    chunks = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=TOKENS, temperature=0, stream=True)
    return "".join(chunk.choices[0].text for chunk in chunks)


def test_a_stream_on_which_no_text_comes_goes_on(tmp_path: Path) -> None:
    environment = {"DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS": str(SILENCE)}
    with Parts(tmp_path, "--hang-timeout", "0", environment=environment) as parts, ThreadPoolExecutor() as threads:
        client = openai.OpenAI(base_url=f"{parts.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE)
        alone = chatted(client), completed(client)
        with ExitStack() as held:
            for worker in parts.living():
                held.enter_context(worker.held())
            streams = threads.submit(chatted, client), threads.submit(completed, client)
            with closing(parts.send(chat(PROMPT, TOKENS) | {"stream": True})) as connection:
                told = connection.getresponse()
                assert [told.readline() for _ in range(3 * SIGNS)] == SIGNS * [b"event: \n", b": alive\n", b"\n"]
        assert tuple(stream.result() for stream in streams) == alone
        assert all(alone)
