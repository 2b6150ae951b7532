"""Shared by the tests of real clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.clients.openai_python.clients import client_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openai

    from tests.live.server import Server


@pytest.fixture
def client(four_slots: Server) -> Iterator[openai.OpenAI]:
    """A client of a server that is idle again when the test has ended."""
    with client_of(four_slots) as client:
        yield client
    four_slots.wait_idle()
