"""Stored chats on real servers, by the `openai` client: kept, listed, changed; and left by those who hang up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.live.clients.openai_python.clients import client_of
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1
from tests.live.server import Json, Server, wait_for

PATH = "/v1/chat/completions"
ENDLESS: Json = {"ignore_eos": True}
ASKED: Any = {"model": "any-name", "messages": [{"role": "user", "content": "import os"}], "store": True}


def test_a_chat_is_kept_changed_and_deleted(client: openai.OpenAI) -> None:
    chats = client.chat.completions
    made = chats.create(**ASKED, metadata={"topic": "a"}, max_tokens=4, extra_body=ENDLESS)
    kept = chats.retrieve(made.id)
    assert kept.to_dict() == made.to_dict() | {"metadata": {"topic": "a"}}
    assert chats.update(made.id, metadata={"topic": "b"}).to_dict()["metadata"] == {"topic": "b"}
    (message,) = chats.messages.list(made.id)
    assert (message.id, message.content) == (f"{made.id}-0", "import os")
    assert chats.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        chats.retrieve(made.id)


def test_streams_are_listed_page_by_page(client: openai.OpenAI) -> None:
    texts: dict[str, str] = {}
    for number in range(5):
        metadata = {"run": "streams", "number": str(number)}
        with client.chat.completions.create(
            **ASKED, metadata=metadata, max_tokens=3, stream=True, seed=number, extra_body=ENDLESS
        ) as stream:
            for chunk in stream:
                texts[chunk.id] = texts.get(chunk.id, "") + (chunk.choices[0].delta.content or "")
    listed = client.chat.completions.list(metadata={"run": "streams"}, limit=2)
    assert {kept.id: kept.choices[0].message.content for kept in listed} == texts
    newest = client.chat.completions.list(metadata={"run": "streams"}, order="desc", limit=1)
    assert newest.data[0].id == list(texts)[-1]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_is_receipted_and_nothing_is_kept(one_slot: Server, stream: bool) -> None:
    victim = Http1(one_slot, ASKED | ENDLESS | {"max_tokens": 3000, "stream": stream}, PATH)
    (victim_id,) = wait_for(lambda: one_slot.requests().keys(), "the request")
    one_slot.wait_state(victim_id, "decode")
    victim.close()
    (receipt,) = one_slot.wait_ended(victim_id)
    assert receipt["reason"] == "client_disconnect"
    assert one_slot.ask("GET", f"{PATH}/{victim_id}")[0] == 404
    one_slot.wait_idle()


def test_one_that_an_operator_cut_short_is_kept_as_it_was_answered(client: openai.OpenAI, four_slots: Server) -> None:
    with client.chat.completions.create(**ASKED, max_tokens=3000, stream=True, extra_body=ENDLESS) as stream:
        first = next(iter(stream))
        four_slots.wait_state(first.id, "decode")
        assert four_slots.ask("DELETE", f"/v1/requests/{first.id}")[0] == 200
        *_, last = stream
    (choice,) = client.chat.completions.retrieve(first.id).choices
    assert choice.finish_reason == last.choices[0].finish_reason == "length"
    assert choice.to_dict()["cede"] == {"cancelled": "operator"}


def test_what_was_kept_outlives_a_restart(tmp_path: Path) -> None:
    flags = ("--state-dir", str(tmp_path / "state"))
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        made = client.chat.completions.create(**ASKED, max_tokens=4, extra_body=ENDLESS)
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        assert [kept.choices for kept in client.chat.completions.list()] == [made.choices]
