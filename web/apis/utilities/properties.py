"""Properties of the server, in llama-server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.process.version import cede_version

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.apis.utilities.answers import Properties


def properties(model: ServedModel, slots: int) -> Properties:
    """Return the answer of `GET /props`, without what would tell of the machine, such as the model's path.

    Args:
        model: that is served.
        slots: generations that run at a time.
    """
    name = model.tokenizer.token_text
    begin = model.tokenizer.encode("")
    sampling = model.sampling
    return {
        "default_generation_settings": {
            "n_ctx": model.context_length,
            "params": {
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k,
                "min_p": sampling.min_p,
                "repeat_penalty": sampling.repetition_penalty,
            },
        },
        "total_slots": slots,
        "model_alias": model.name,
        "chat_template": None if model.chat is None else model.chat.template.source,
        "bos_token": name(begin[0]) if begin else None,
        "eos_token": name(model.eos_token_ids[0]) if model.eos_token_ids else None,
        "modalities": {"vision": False, "audio": False},
        "build_info": f"cede {cede_version()}",
    }
