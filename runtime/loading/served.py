"""Description of the model that is being served, without its tensors."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.checkpoint.sampling_defaults import SamplingDefaults
from runtime.loading.facts import ModelFacts
from runtime.step.prompt_rows.wanted import Pooling
from runtime.text.text_stream import TextStream

if TYPE_CHECKING:
    from collections.abc import Collection

    from runtime.chat.chat import Chat
    from runtime.kv.rings import Rings
    from runtime.text.stop_strings import StopAutomaton
    from runtime.text.tokenizer import Tokenizer


class Proposer(enum.StrEnum):
    """Source of the tokens that the target verifies."""

    OFF = "off"
    NGRAM = "ngram"  # looked up in the prompt and the output so far
    DRAFT = "draft"  # a smaller model of the same vocabulary
    ASSISTANT = "assistant"  # a model made for the target, whose KV and hidden states it reads
    MTP = "mtp"  # the checkpoint's own module for multi-token prediction


DRAFT_MODELS = (Proposer.DRAFT, Proposer.ASSISTANT)  # that lie in a folder of their own


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The plain data of a model that the layers above need.

    Attributes:
        context_length: the most tokens that one sequence may have, prompt and output together.
        vocab_size: logits of a row; the tokenizer may have fewer tokens.
        tokenizer: the checkpoint's.
        name: the one that `GET /v1/models` shows.
        created: when the model was loaded, in seconds since the epoch.
        eos_token_ids: tokens that end an output, unless the request ignores them.
        chat: how the model converses; None for a base model, which has no chat template.
        sampling: what a request that does not say otherwise samples by.
        facts: what its files say about themselves.
        pooling: how the states of a text become its embedding; None where no embeddings are served.
        rings: where its windowed layers keep their KV, as `KVCache.rings`; None if all layers keep all of it.
        positions: of the arena that all sequences share, as `KVCache.positions`; None for as many as all slots have at
            their longest.
        state_buffers: for the states of its recurrent layers; 0 where it has none.
        state_bytes: of one of them.
        open_objects: whether objects of an /api `format` may have properties that are not listed.
        position_bytes: of the KV of one of them; 0 where that is not known.
    """

    context_length: int
    vocab_size: int
    tokenizer: Tokenizer
    name: str = "stand-in"
    created: int = 0
    eos_token_ids: tuple[int, ...] = ()
    chat: Chat | None = None
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    facts: ModelFacts = field(default_factory=ModelFacts)
    pooling: Pooling | None = Pooling.MEAN
    rings: Rings | None = None
    positions: int | None = None
    position_bytes: int = 0
    state_buffers: int = 0
    state_bytes: int = 0
    open_objects: bool = False

    def text(
        self, stop: StopAutomaton, *, continues: bool = False, visible: Collection[int] = frozenset()
    ) -> TextStream:
        """Return a fresh stream from tokens to text that ends at any of `stop`; see `TextStream` for the others."""
        return TextStream(self.tokenizer, stop, continues=continues, visible=visible)
