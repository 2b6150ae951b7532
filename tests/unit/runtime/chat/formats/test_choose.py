"""Choice of a model's format: by its templates, or as the operator says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, Turn
from runtime.chat.formats.choose import ToolFormatName, find_format, make_format
from runtime.chat.template import ChatTemplate
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from tests.models.chat.templates import CHATML, HERMES, LLAMA, MISTRAL


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("<tool_call>\n<function=name> <parameter=", "qwen-xml"),
        ('{"name": "f", "parameters": }', "llama"),
        ("<|tool_call|>[", "listed"),
        ("<tool_call>name<arg_key>", "glm"),
        ("<|tool_calls_section_begin|>", "kimi"),
        ("<|im_system|>tool_declare<|im_middle|>", "kimi"),
        ("<minimax:tool_call>", "minimax"),
        ("<|tool_call>call:", "gemma"),
        ("<start_function_call>call:", "gemma"),
        ("<seed:tool_call>\n<function=f>\n<parameter=", "qwen-xml"),
        ("<tools>", None),
    ],
)
def test_a_template_shows_it(source: str, name: str | None) -> None:
    assert find_format(source) == name


def test_a_response_template_shows_gemma() -> None:
    pattern = r"<\|tool_call>call:(?P<name>\w+)"  # as in Gemma 4's tokenizer_config.json
    assert find_format("", {"fields": {"tool_calls": {"open_pattern": pattern}}}) == "gemma"


def test_every_format_can_be_made() -> None:
    assert all(make_format(name).markers for name in ToolFormatName)


def test_the_operator_overrules_the_template() -> None:
    assert Chat(ChatTemplate(HERMES), tool_format=ToolFormatName.LLAMA).tool_format == "llama"
    generic = Chat(ChatTemplate(HERMES), tool_format=ToolFormatName.GENERIC)
    text = generic.prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")])).text
    assert "# Tools" not in text
    assert "You can call these functions" in text
    assert Chat(ChatTemplate(CHATML), tool_format=ToolFormatName.HERMES).tool_format == "hermes"


def test_a_template_without_tools_cannot_have_any_format() -> None:
    with pytest.raises(CheckpointError, match="shows no tools, so --tool-format cannot be mistral"):
        Chat(ChatTemplate(CHATML), tool_format=ToolFormatName.MISTRAL)


def test_a_response_template_comes_first(tmp_path: Path) -> None:
    response = {"fields": {"tool_calls": {"open_pattern": r"\[TOOL_CALLS\]"}}}
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "chat_template.jinja").write_text(LLAMA)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"response_template": response}))
    chat = Chat.load(open_checkpoint(tmp_path))
    assert chat
    assert chat.tool_format == "mistral"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"response_template": "none"}))
    chat = Chat.load(open_checkpoint(tmp_path))
    assert chat
    assert chat.tool_format == "llama"
    assert Chat(ChatTemplate(MISTRAL, {"eos_token": "</s>"})).tool_format == "mistral"


def test_a_template_of_one_s_own_takes_the_place_of_the_model_s(tmp_path: Path) -> None:
    folder, own = tmp_path / "model", tmp_path / "own.jinja"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    own.write_text(LLAMA)
    assert Chat.load(open_checkpoint(folder)) is None
    (folder / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(CheckpointError, match=r"broken at line 1.*--chat-template FILE takes another"):
        Chat.load(open_checkpoint(folder))
    chat = Chat.load(open_checkpoint(folder), template=own)
    assert chat is not None
    assert chat.tool_format == "llama"
    with pytest.raises(CheckpointError, match=r"none\.jinja: the chat template cannot be read"):
        Chat.load(open_checkpoint(folder), template=tmp_path / "none.jinja")
