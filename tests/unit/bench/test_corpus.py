"""Corpus of the embedded models: chats in the template's form, and texts that are kept apart for tests."""

from __future__ import annotations

import random

import pytest

from bench.corpus import ASSISTANT, END, HELD_OUT_PERCENT, USER, chat_of, definitions, is_held_out, render_chat

SOURCE = '''
def greet(name):
    """Say hello to somebody.

    More of it.
    """
    return "hello, " + name


def short(): pass
'''


def test_a_chat_is_in_the_template_s_form() -> None:
    assert render_chat([(USER, "hi"), (ASSISTANT, "yes")]) == f"{USER}\nhi{END}\n{ASSISTANT}\nyes{END}\n"


def test_about_so_many_files_are_held_out_and_always_the_same() -> None:
    names = [f"folder/module_{number}.py" for number in range(5000)]
    held_out = [name for name in names if is_held_out(name)]
    assert len(held_out) == pytest.approx(len(names) * HELD_OUT_PERCENT / 100, rel=0.3)
    assert held_out == [name for name in names if is_held_out(name)]


def test_a_function_becomes_a_chat() -> None:
    (found,) = definitions("folder/module.py", SOURCE)
    assert found.summary == "Say hello to somebody."
    chat = chat_of(found, random.Random(0))
    assert chat.count(END) >= 2
    assert "def greet(name):" in chat


def test_what_does_not_compile_has_no_definitions() -> None:
    assert list(definitions("old.py", "print 'Python 2'")) == []
