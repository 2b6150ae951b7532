"""Clients of the `openai` package."""

from __future__ import annotations

import openai

from tests.live.server import PATIENCE, Server


def client_of(server: Server) -> openai.OpenAI:
    """Return a client that asks once, and says what went wrong."""
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE)
