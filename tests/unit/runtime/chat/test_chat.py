"""Conversations of the model that comes with cede, from its files."""

from __future__ import annotations

from pathlib import Path

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.checkpoint.open import open_checkpoint
from runtime.grammar.compiler import GrammarCompiler
from runtime.text.tokenizer import Tokenizer
from tests.models.chat.answers import Answer, Call, read

EMBEDDED = Path(__file__).parents[4] / "runtime" / "embedded" / "target"
NOW = Tool("now", "The time.", {"type": "object", "properties": {"zone": {"type": "string"}}})


def test_the_embedded_model_has_tools_described_and_its_answers_held_to_calls() -> None:
    checkpoint = open_checkpoint(EMBEDDED)
    tokenizer = Tokenizer.load(checkpoint)
    chat = Chat.load(checkpoint, tokenizer.added_tokens)
    assert chat
    assert chat.tool_format == "generic"
    assert not chat.reasons
    choice = ToolChoice(ToolMode.REQUIRED)
    prompt = chat.prompt(Conversation([Turn("user", "What time is it?")], tools=[NOW], tool_choice=choice))
    assert prompt.text.startswith("<|system|>\nYou can call these functions")
    assert prompt.text.endswith("<|user|>\nWhat time is it?<|end|>\n<|assistant|>\n")
    assert prompt.grammar
    compiler = GrammarCompiler(tokenizer, checkpoint.config.vocab_size, (0, 4))
    answer = '<tool_call>\n{"name": "now", "arguments": {"zone": "CET"}}\n</tool_call>'
    for text, valid in ((answer, True), (answer.replace("now", "then"), False), ("It is late.", False)):
        ids = tokenizer.encode(text, add_special_tokens=False)
        matcher = compiler.compile(prompt.grammar).matcher()
        assert (matcher.count_valid(ids) == len(ids)) is valid
    said = read(prompt.parser(), [tokenizer.decode([token]) for token in tokenizer.encode(answer)])
    assert said == Answer(text=["", ""], calls=[Call("now", '{"zone": "CET"}', whole=True)])


def test_without_tools_and_reasoning_nothing_is_looked_for() -> None:
    checkpoint = open_checkpoint(EMBEDDED)
    chat = Chat.load(checkpoint)
    assert chat
    prompt = chat.prompt(Conversation([Turn("user", "Hi")]))
    assert (prompt.grammar, prompt.visible) == (None, frozenset())
    assert read(prompt.parser(), ["<tool_call>", "{}"]) == Answer(text=["<tool_call>{}"])
