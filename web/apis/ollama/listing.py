"""The one model that is served, as Ollama shows models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import NotFound
from runtime.text.infill import InfillTokens
from web.apis.ollama.answers import timestamp

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers import Details, Process, Processes, Show, Tag, Tags

LATEST = ":latest"
"""The tag of a name that has none."""

NEVER = "2318-01-01T00:00:00Z"
"""When the model will be unloaded: never, which Ollama writes as a time three centuries from now."""


def full_name(model: ServedModel) -> str:
    """Return a model's name with a tag, as all names in Ollama's lists have one."""
    return model.name if ":" in model.name else model.name + LATEST


def check_name(name: str | None, model: ServedModel) -> None:
    """Check that a name is the served model's, with or without its tag.

    Raises:
        NotFound: it is not.
    """
    if name not in (model.name, full_name(model)):
        raise NotFound(f"model '{name or ''}' not found", param="model", code="model_not_found")


def tags(model: ServedModel) -> Tags:
    """Return the answer of `GET /api/tags`."""
    tag: Tag = {
        "name": full_name(model),
        "model": full_name(model),
        "modified_at": timestamp(model.created),
        "size": model.facts.num_bytes,
        "digest": model.facts.fingerprint,
        "details": details(model),
    }
    return {"models": [tag]}


def processes(model: ServedModel) -> Processes:
    """Return the answer of `GET /api/ps`, without how much of the model is in a GPU's memory."""
    process: Process = {
        "name": full_name(model),
        "model": full_name(model),
        "size": model.facts.num_bytes,
        "digest": model.facts.fingerprint,
        "details": details(model),
        "expires_at": NEVER,
        "context_length": model.context_length,
    }
    return {"models": [process]}


def show(model: ServedModel) -> Show:
    """Return the answer of `POST /api/show`.  Its `template` is the model's own, in Jinja, which Ollama's are not."""
    defaults = model.sampling.values()
    defaults["repeat_penalty"] = defaults.pop("repetition_penalty")
    return {
        "modelfile": "",
        "parameters": "\n".join(f"{name:30} {value:g}" for name, value in defaults.items()),
        "template": "" if model.chat is None else model.chat.template.source,
        "details": details(model),
        "model_info": model_info(model),
        "capabilities": capabilities(model),
        "modified_at": timestamp(model.created),
    }


def details(model: ServedModel) -> Details:
    """Return what the lists say about the model's files."""
    facts = model.facts
    return {
        "parent_model": "",
        "format": facts.format,
        "family": facts.family,
        "families": [facts.family],
        "parameter_size": parameter_size(facts.parameters),
        "quantization_level": facts.form,
    }


def model_info(model: ServedModel) -> dict[str, str | int]:
    """Return the model's figures, under the keys of a GGUF file."""
    facts = model.facts
    figures = {
        "context_length": facts.trained_context,
        "embedding_length": facts.hidden_size,
        "block_count": facts.num_layers,
        "attention.head_count": facts.num_heads,
        "attention.head_count_kv": facts.num_kv_heads,
        "vocab_size": model.vocab_size,
    }
    general: dict[str, str | int] = {"general.architecture": facts.family, "general.parameter_count": facts.parameters}
    return general | {f"{facts.family}.{name}": value for name, value in figures.items()}


def capabilities(model: ServedModel) -> list[str]:
    """Return what the model can do, in Ollama's words."""
    able = {
        "completion": True,
        "tools": model.chat is not None,
        "thinking": model.chat is not None and model.chat.reasons,
        "embedding": model.pooling is not None,
        "insert": InfillTokens.of(model.tokenizer) is not None,
    }
    return [name for name, can in able.items() if can]


def parameter_size(parameters: int) -> str:
    """Return a number of parameters as people say it, such as `1.5B`."""
    for unit, size in (("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if parameters >= size:
            return f"{parameters / size:.2f}".rstrip("0").rstrip(".") + unit
    return str(parameters)
