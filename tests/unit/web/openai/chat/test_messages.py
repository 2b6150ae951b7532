"""A chat's messages are one conversation, as the template renders it."""

from __future__ import annotations

from tests.fakes.engine import TEMPLATE, chat


def tokens(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_a_chat_is_rendered_without_another_bos() -> None:
    parsed = chat(
        messages=[
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]
    )
    assert parsed.request.prompts == (tokens("<system>be brief</system><user>a\nb</user><assistant>"),)


def test_the_template_gets_its_variables() -> None:
    parsed = chat(chat_template_kwargs={"shout": "!"}, add_generation_prompt=False)
    assert parsed.request.prompts == (tokens("<user>hi</user>!"),)


def test_the_last_message_can_be_continued() -> None:
    """Where the template ends it is found by a mark, for the text itself may occur anywhere."""
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "s"}]
    parsed = chat(messages=messages, continue_final_message=True)
    assert parsed.request.prompts == (tokens("<user>hi</user><assistant>s"),)
    assert "trim" in TEMPLATE
