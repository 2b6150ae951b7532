"""Conversation: who has said what."""

from __future__ import annotations

import pytest

from web.commands.chat.conversation import ChatError, Conversation, Message


def after(*turns: tuple[str, str]) -> Conversation:
    conversation = Conversation("Be brief.")
    for question, answer in turns:
        conversation.ask(question)
        conversation.answered(answer, "")
    return conversation


def said(conversation: Conversation) -> list[str]:
    return [message["content"] for message in conversation.body()["messages"]]


def test_a_body_has_the_system_text_all_messages_and_what_was_set() -> None:
    conversation = after(("one", "1"))
    conversation.set("temperature", "0.5")
    conversation.set("max_tokens", "7")
    conversation.ask("two")
    body = conversation.body()
    assert said(conversation) == ["Be brief.", "one", "1", "two"]
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert (body["temperature"], body["max_tokens"], body["stream"]) == (0.5, 7, True)
    conversation.set("temperature", "")
    assert "temperature" not in conversation.body()
    assert conversation.body()["prompt_cache_key"] == body["prompt_cache_key"] != after().body()["prompt_cache_key"]


def test_thoughts_are_kept_and_not_sent() -> None:
    conversation = Conversation()
    conversation.ask("one")
    conversation.answered("1", "hm")
    assert conversation.messages[-1] == Message("assistant", "1", "hm")
    assert said(conversation) == ["one", "1"]


def test_an_answer_is_taken_back_and_then_its_question() -> None:
    conversation = after(("one", "1"), ("two", "2"))
    conversation.retry()
    assert said(conversation) == ["Be brief.", "one", "1", "two"]
    conversation.retry()  # it waits already
    assert conversation.undo() == "two"
    assert conversation.undo() == "one"
    for change in (conversation.undo, conversation.retry):
        with pytest.raises(ChatError):
            change()


def test_a_question_without_an_answer_gives_way_to_the_next() -> None:
    conversation = after(("one", ""))
    conversation.ask("two")
    assert said(conversation) == ["Be brief.", "two"]


@pytest.mark.parametrize(("name", "value"), [("heat", "1"), ("temperature", "warm"), ("seed", "1.5")])
def test_what_cannot_be_set_is_said(name: str, value: str) -> None:
    with pytest.raises(ChatError, match=name):
        Conversation().set(name, value)


def test_a_conversation_is_read_as_it_was_written() -> None:
    conversation = after(("one", "1"), ("zwei ∑", "2"))
    conversation.set("seed", "3")
    again = Conversation.loads(conversation.dumps())
    assert (again.system, again.messages, again.settings) == ("Be brief.", conversation.messages, {"seed": 3})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"system": null, "settings": {}, "messages": [{"role": "tool", "content": ""}]}',
        '{"system": null, "settings": {}, "messages": [{"role": "user", "content": 3}]}',
        '{"system": null, "settings": {"seed": "x"}, "messages": []}',
    ],
)
def test_what_is_no_conversation_is_refused(text: str) -> None:
    with pytest.raises(ChatError):
        Conversation.loads(text)
