"""Facts about a model from its files, for clients that ask what is served."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.families.table import FAMILIES

if TYPE_CHECKING:
    from runtime.checkpoint.open import Checkpoint


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
