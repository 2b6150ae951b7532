"""The activations of an MLP, and of a gate behind attention, by their names in config.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runtime.checkpoint.json_fields import boolean, invalid

if TYPE_CHECKING:
    from runtime.checkpoint.families.family import Family
    from runtime.checkpoint.json_fields import Settings

# The last is that of an MLP without a gate, the square of ReLU; the others are of the gate.
Activation = Literal["silu", "gelu_tanh", "relu2"]

# The first two are one function.
_NAMES: dict[str, Activation] = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


def read_activation(family: Family, settings: Settings) -> Activation:
    """Return the activation that the file names.

    Raises:
        CheckpointError: cede does not compute it.
    """
    names = _NAMES | dict(family.activation_names)
    named = settings[family.activation_key]
    if not isinstance(named, str) or named not in names:
        raise invalid(family.activation_key, named, f"is not supported; these are: {', '.join(names)}")
    return names[named]


@dataclass(frozen=True, slots=True)
class OutputGate:
    """A gate that multiplies what each query head attends to.

    Attributes:
        activation: of the gate.
        by_head: one number is for all those of a head.
    """

    activation: Literal["sigmoid", "softplus"]
    by_head: bool = False


def no_gate(settings: Settings) -> OutputGate | None:
    """Let all pass, as Llama does."""
    return None


def sigmoid_gate(settings: Settings) -> OutputGate | None:
    """Gate each number by a sigmoid, as Qwen3-Next does."""
    return OutputGate("sigmoid")


def laguna_gate(settings: Settings) -> OutputGate | None:
    """Gate each number, or each head, as `gating` says in Laguna."""
    if boolean(settings, "attention_bias"):  # which the gate has none of
        raise invalid("attention_bias", True, "is not supported in this family")
    given, by_layer = settings["gating"], settings.get("gating_types")
    if given not in (True, "per-head", "per-element"):
        raise invalid("gating", given, "is neither true, 'per-head' nor 'per-element'")
    kind = "per-element" if given == "per-element" else "per-head"
    alike = [[name] * settings["num_hidden_layers"] for name in (kind, kind.replace("-", "_"))]
    if by_layer not in (None, *alike):
        raise invalid("gating_types", by_layer, f"is not {kind} in all layers, as gating says")
    return OutputGate("softplus", by_head=kind == "per-head")
