"""Writing a small random checkpoint with transformers: config.json, float32 safetensors, and a tokenizer.

The weights are spread so widely that greedy continuations wander and that one token wins clearly: two implementations
can be held to the same text, which a forgotten bias, norm, window or rotation changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")  # ids 256 to 259, behind the bytes
VOCAB_SIZE = 256 + len(SPECIALS)
CONTEXT = 256  # tokens

_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_BUFFERS = ("e_score_correction_bias", "expert_bias", "layer_scalar")  # that are weights of files, too

_SIZES = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 256,
    "eos_token_id": 256,
    "pad_token_id": 259,
    "dtype": "float32",
}


def write_checkpoint(
    folder: Path,
    model_class: type[Any],
    config_class: Callable[..., Any],
    *,
    seed: int,
    embedding: float = 0.3,
    shard_size: str | None = None,
    **settings: Any,  # noqa: ANN401
) -> None:
    """Write a model of `settings` over the small common sizes, its weights drawn from `seed`.

    A family that scales its embedding, or gives it to a tied head, wants less of it: else each token predicts itself.
    """
    model = model_class(config_class(**deepcopy({**_SIZES, **settings})))  # of what it is given, a class keeps objects
    spread_weights(model, seed, embedding)
    model.generation_config.eos_token_id = [256, 258]
    model.save_pretrained(folder, **({} if shard_size is None else {"max_shard_size": shard_size}))
    write_tokenizer(folder)


def reference_model(folder: Path, dtype: torch.dtype = torch.float32) -> Any:  # noqa: ANN401
    """Return transformers' model of a folder; of one that reads images, too, all of it."""
    (architecture,) = transformers.AutoConfig.from_pretrained(folder).architectures
    return getattr(transformers, architecture).from_pretrained(folder, dtype=dtype)


@torch.no_grad()
def spread_weights(model: torch.nn.Module, seed: int, embedding: float = 0.3) -> None:
    """Draw all parameters anew: norms about 1, biases and matrices wide, special tokens never the likeliest.

    Each has a generator of its own, so that the order in which a module lists them does not matter.
    """
    buffers = [named for named in model.named_buffers() if named[0].endswith(_BUFFERS)]
    for index, (name, parameter) in enumerate(sorted([*model.named_parameters(), *buffers])):
        generator = torch.Generator().manual_seed(seed * 1000 + index)
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith(("norm.weight", "layer_scalar", "scale")) or "layernorm_" in name:
            parameter.copy_(1 + 0.2 * noise)
        elif name.endswith("bias"):
            parameter.copy_(0.3 * noise)
        elif name.endswith(("embed_tokens.weight", "embed_tokens_per_layer.weight", "lm_head.weight")):
            parameter.copy_(embedding * noise)
            parameter[256:] *= 0.1
        else:
            parameter.copy_(0.25 * noise)


def write_tokenizer(folder: Path) -> None:
    """A tokenizer whose ids are the bytes of UTF-8, with `SPECIALS` behind them, and a ChatML template."""
    symbols = _byte_symbols()
    vocabulary = {symbols[byte]: byte for byte in range(256)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": SPECIALS[0],
        "pad_token": SPECIALS[3],
        "chat_template": _CHAT_TEMPLATE,
        "model_max_length": CONTEXT,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _byte_symbols() -> list[str]:
    """The character that stands for each byte in byte-level BPE (GPT-2's table): itself if it can be printed."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
