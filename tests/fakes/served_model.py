"""A served model of which nothing runs: what the web layer asks of one."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from runtime.chat.chat import Chat
from runtime.chat.template import ChatTemplate
from runtime.checkpoint.sampling_defaults import SamplingDefaults
from runtime.loading.served import ModelFacts
from runtime.step.prompt_rows.wanted import Pooling
from tests.fakes.byte_tokenizer import ByteTokenizer

CONTEXT = 64
VOCABULARY = 257  # every byte, and BOS

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}"
    "{% if shout is defined %}{{ shout }}{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


@functools.cache
def chat() -> Chat:
    """Return the chat of every stand-in; compiling its template takes as long as a short test."""
    return Chat(ChatTemplate(TEMPLATE))


@dataclass
class FakeModel:
    """Served model, as far as the web layer asks anything of it."""

    name: str = "bytes"
    created: int = 1_700_000_000
    context_length: int = CONTEXT
    vocab_size: int = VOCABULARY
    eos_token_ids: tuple[int, ...] = ()
    tokenizer: ByteTokenizer = field(default_factory=ByteTokenizer)
    chat: Chat | None = field(default_factory=chat)
    facts: ModelFacts = field(default_factory=lambda: ModelFacts(hidden_size=4))
    pooling: Pooling | None = Pooling.MEAN
    open_objects: bool = False
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)  # neutral: OpenAI's
