"""Conversations on real servers, by the `openai` client; and clients that leave in the middle of a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.live.clients.openai_python.clients import client_of
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1
from tests.live.server import Json, Server, wait_for

PATH = "/v1/responses"
ENDLESS: Json = {"ignore_eos": True}
ASKED: Any = {"model": "any-name", "max_output_tokens": 5, "extra_body": ENDLESS}


def texts(client: openai.OpenAI, conversation_id: str) -> list[str]:
    """Return what was said in a conversation, over pages of two."""
    said = []
    for item in client.conversations.items.list(conversation_id, order="asc", limit=2):
        assert item.type == "message"
        said.append(getattr(item.content[0], "text", ""))
    return said


def test_turns_are_added_by_responses_of_all_kinds(client: openai.OpenAI, four_slots: Server) -> None:
    made = client.conversations.create(items=[{"role": "user", "content": "import os"}], metadata={"topic": "a"})
    assert client.conversations.retrieve(made.id) == made
    whole = client.responses.create(input="import re", conversation=made.id, **ASKED)
    assert whole.conversation is not None
    assert whole.conversation.id == made.id
    said = ["import os", "import re", whole.output_text]
    assert texts(client, made.id) == said
    with client.responses.create(input="x", conversation={"id": made.id}, stream=True, **ASKED) as stream:
        *_, last = stream
    assert last.type == "response.incomplete"
    said += ["x", last.response.output_text]
    assert texts(client, made.id) == said
    started = client.responses.create(input="y", conversation=made.id, background=True, **ASKED)
    ended = wait_for(lambda: _ended(client, started.id), "the response in the background")
    said += ["y", ended.output_text]
    assert texts(client, made.id) == said
    item = next(iter(client.conversations.items.list(made.id, order="asc")))
    assert client.conversations.items.retrieve(str(item.id), conversation_id=made.id) == item
    client.conversations.items.delete(str(item.id), conversation_id=made.id)
    added = client.conversations.items.create(made.id, items=[{"role": "user", "content": "z"}])
    assert len(added.data) == 1
    assert texts(client, made.id) == [*said[1:], "z"]
    assert client.conversations.update(made.id, metadata={"topic": "b"}).metadata == {"topic": "b"}
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


def _ended(client: openai.OpenAI, response_id: str) -> Any:  # noqa: ANN401
    response = client.responses.retrieve(response_id)
    return None if response.status in ("queued", "in_progress") else response


def _unless_locked(client: openai.OpenAI, conversation_id: str) -> Any:  # noqa: ANN401
    """The next response, unless the one before has not yet let go of the conversation."""
    try:
        return client.responses.create(input="y", conversation=conversation_id, **ASKED)
    except openai.BadRequestError as error:
        if error.code != "conversation_locked":
            raise
        return None


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_adds_nothing_and_the_next_turn_may_begin(one_slot: Server, stream: bool) -> None:
    with client_of(one_slot) as client:
        made = client.conversations.create(items=[{"role": "user", "content": "import os"}])
        body = {"input": "x", "conversation": made.id, "max_output_tokens": 3000, "stream": stream} | ENDLESS
        victim = Http1(one_slot, body, PATH)
        (victim_id,) = wait_for(lambda: one_slot.requests().keys(), "the request")
        one_slot.wait_state(victim_id, "decode")
        with pytest.raises(openai.BadRequestError) as locked:
            client.responses.create(input="y", conversation=made.id, **ASKED)
        assert locked.value.code == "conversation_locked"
        victim.close()
        (receipt,) = one_slot.wait_ended(victim_id)
        assert receipt["reason"] == "client_disconnect"
        assert texts(client, made.id) == ["import os"]
        following = wait_for(lambda: _unless_locked(client, made.id), "the turn to be over")
        assert texts(client, made.id) == ["import os", "y", following.output_text]


def test_a_conversation_outlives_a_restart(tmp_path: Path) -> None:
    flags = ("--state-dir", str(tmp_path / "state"))
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        made = client.conversations.create(metadata={"topic": "a"})
        answer = client.responses.create(input="import os", conversation=made.id, **ASKED)
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        assert client.conversations.retrieve(made.id) == made
        assert texts(client, made.id) == ["import os", answer.output_text]
