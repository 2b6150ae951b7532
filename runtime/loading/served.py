"""Description of the model that is being served, without its tensors."""

from __future__ import annotations

import enum
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.sampling_defaults import SamplingDefaults
from runtime.step.prompt_rows.wanted import Pooling
from runtime.text.text_stream import TextStream

if TYPE_CHECKING:
    from collections.abc import Collection

    from runtime.chat.chat import Chat
    from runtime.checkpoint.open import Checkpoint
    from runtime.kv.rings import Rings
    from runtime.text.stop_strings import StopAutomaton
    from runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The plain facts of a model that change nothing in how it is served.

    Attributes:
        family: transformers' name of it, such as `llama`.
        format: of the files, `gguf` or `safetensors`.
        form: what most bytes of the weights are, in the format's own word: `BF16`, `Q4_K`.
        parameters: numbers in all tensors.
        num_bytes: of all tensors in the files.
        num_layers: decoder layers.
        num_heads: query heads of a layer.
        num_kv_heads: key and value heads of a layer.
        hidden_size: numbers of a hidden state.
        trained_context: tokens that a sequence may have by the model's files; a slot may have room for fewer.
        fingerprint: of the files, 64 hex digits; empty where nobody has computed it.
    """

    family: str = "unknown"
    format: str = "unknown"
    form: str = "unknown"
    parameters: int = 0
    num_bytes: int = 0
    num_layers: int = 0
    num_heads: int = 0
    num_kv_heads: int = 0
    hidden_size: int = 0
    trained_context: int = 0
    fingerprint: str = ""


def facts_of(checkpoint: Checkpoint) -> ModelFacts:
    """Read the facts of a checkpoint, without its weights and its fingerprint.

    Raises:
        CheckpointError: its files are broken.
    """
    config = checkpoint.config
    tensors = checkpoint.tensors().values()
    forms: Counter[str] = Counter()
    for tensor in tensors:
        forms[tensor.form] += tensor.num_bytes
    return ModelFacts(
        family=FAMILIES[config.architecture].model_type,
        format="gguf" if checkpoint.path.is_file() else "safetensors",
        form=max(forms, key=lambda form: forms[form], default="unknown"),
        parameters=sum(math.prod(tensor.shape) for tensor in tensors),
        num_bytes=forms.total(),
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        hidden_size=config.hidden_size,
        trained_context=config.context_length,
    )


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
        positions: of the pool that all sequences share, as `KVCache.positions`; None for as many as all slots have at
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
