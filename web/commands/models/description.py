"""Description of a model that is here: read from its small files and its weights' headers, and never fatal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import CedeError

if TYPE_CHECKING:
    from runtime.store.held import HeldModel


@dataclass(frozen=True, slots=True)
class Description:
    """Description of a model, from its files.

    Attributes:
        family: its architecture, as Hugging Face calls it.
        quantisation: as the name of a GGUF file says; otherwise the form that most of its weights are in, by bytes.
        context: tokens that it was made for.
        fits: whether this machine can serve it with four slots: `yes`, how, or `no`.
        states: buffers for the states of recurrent layers, with four slots; None where no layer is.
        problem: why it cannot be served; None where nothing is known to be the matter.
    """

    family: str | None = None
    quantisation: str | None = None
    context: int | None = None
    fits: str | None = None
    states: str | None = None
    problem: str | None = None


def describe(model: HeldModel) -> Description:
    """Read what a model's files say; one that cannot be read is described by what is the matter."""
    from runtime.checkpoint.open import open_checkpoint
    from runtime.loading.fit import fits_of, what_fits
    from runtime.loading.options import LoadOptions
    from runtime.store.gguf_names import SUFFIX, quantisation_of

    if model.problem is not None:
        return Description(problem=model.problem)
    try:
        checkpoint = open_checkpoint(model.path)
        config = checkpoint.config
        fits = fits_of(LoadOptions(model.path), config, checkpoint.tensors())
        memory = fits[0].takes.states
        forms: Counter[str] = Counter()
        for tensor in checkpoint.tensors().values():
            forms[tensor.form] += tensor.num_bytes
    except CedeError as error:
        return Description(problem=str(error))
    except Exception as error:  # one model that cannot be read must not hide the others
        return Description(problem=f"it cannot be read: {type(error).__name__}: {error}")
    mixture = quantisation_of(model.path.name) if model.path.suffix == SUFFIX else None
    most = next((form for form, _ in forms.most_common(1)), None)
    states = str(memory) if memory.buffers else None
    return Description(config.architecture, mixture or most, config.context_length, what_fits(fits), states)
