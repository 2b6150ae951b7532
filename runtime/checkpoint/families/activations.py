"""The activations of an MLP, by their names in config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from runtime.checkpoint.json_fields import invalid

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
