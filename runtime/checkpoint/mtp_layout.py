"""Names of the tensors of a multi-token-prediction module in published checkpoints.

All have the same module (`runtime.nn.mtp`) under names of their own, and differ in two more ways: which half
of the projection takes the embedding, and where in the target the state is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class MtpLayout:
    """The names and conventions of one published form.

    Attributes:
        modules: the prefix of all modules' tensors.
        first: the prefix of the first module's, the one that is loaded.
        token_norm: the name after that prefix, without `.weight`, of the norm of the embedding.
        state_norm: likewise, of the norm of the target's state.
        projection: likewise, of the matrix that joins the two.
        final_norm: likewise, of the last norm.  All other tensors are a decoder layer's.
        state_first: the projection's left half takes the state, and not the embedding.
        pre_norm_states: the state is that before the target's final norm, and not after it.
        experts: the module's layer has the experts of the target's last one, and not a plain MLP.
    """

    modules: str
    first: str
    token_norm: str
    state_norm: str
    projection: str
    final_norm: str
    state_first: bool = False
    pre_norm_states: bool = False
    experts: bool = False


# DeepSeek-V3's names, without the number of a layer, in a file of their own beside the target's: the embedded model.
# Its tensors are known by a prefix that the file does not have.
BESIDE = "mtp.safetensors"
DEEPSEEK = MtpLayout(
    modules="mtp_beside.",
    first="mtp_beside.",
    token_norm="enorm",
    state_norm="hnorm",
    projection="eh_proj",
    final_norm="shared_head.norm",
)

# Xiaomi MiMo-7B.  Sources: the authors' modeling_mimo.py (names, order) and their models for vLLM, mimo.py, which takes
# the state before the final norm, and mimo_mtp.py, which chains the module's output after its own.  They use the first
# module only, whatever the number of them, and blank the embedding of the first row, which nobody else does.
MIMO = MtpLayout(
    modules="model.mtp_layers.",
    first="model.mtp_layers.0.",
    token_norm="token_layernorm",
    state_norm="hidden_layernorm",
    projection="input_proj",
    final_norm="final_layernorm",
    state_first=True,
    pre_norm_states=True,
)

_PUBLISHED = re.compile(r"(model\.layers\.(\d{1,4})\.)eh_proj\.weight")

# What each module repeats of the target's own weights, after its prefix.
REPEATED = ("embed_tokens.weight", "shared_head.head.weight")


def published_layout(num_layers: int) -> MtpLayout:
    """Return the layout of DeepSeek-V3's own files, whose modules are numbered on behind the decoder's layers."""
    first = f"model.layers.{num_layers}."
    return replace(DEEPSEEK, modules=first, first=first, experts=True)


def published_modules(names: Iterable[str], num_layers: int) -> tuple[str, ...]:
    """Return the prefixes of all modules in that layout.

    Args:
        names: of all tensors.
        num_layers: of the decoder.
    """
    found = (_PUBLISHED.fullmatch(name) for name in names)
    return tuple(match[1] for match in found if match is not None and int(match[2]) >= num_layers)
