"""Writes the folders that cede and transformers load: config, bfloat16 weights, tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file

from bench.training.data import end_ids
from bench.training.tokenizer import save_tokenizer
from bench.training.train import TOKENS_SEEN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tokenizers import Tokenizer
    from torch import Tensor
    from transformers import Qwen3ForCausalLM

    from bench.training.models import MtpModule


def save_weights(tensors: dict[str, Tensor], file: Path, metadata: dict[str, str]) -> None:
    """Write tensors, rounded to bfloat16, to a file that all users can read."""
    rounded = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    save_file(rounded, file, metadata=metadata)
    file.chmod(0o644)


def export_target(model: Qwen3ForCausalLM, tokenizer: Tokenizer, tokens: int, folder: Path) -> None:
    """Write the target: its weights after `tokens`, and config, its tokenizer, and how it likes to be sampled."""
    export_model(model, folder, {TOKENS_SEEN: str(tokens)})
    ends = end_ids(tokenizer)
    generation = {"eos_token_id": ends, "pad_token_id": ends[0], "do_sample": True, "temperature": 0.8, "top_p": 0.95}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    save_tokenizer(tokenizer, folder)


def export_model(model: Qwen3ForCausalLM, folder: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write config and weights as Hugging Face lays them out: tied head left out, float32 rounded to bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config.to_dict()
    config = {key: value for key, value in config.items() if value is not None and not key.startswith("_")}
    # Both spellings: transformers 4 and most engines read the flat one, transformers 5 the nested one.
    config |= {"architectures": ["Qwen3ForCausalLM"], "dtype": "bfloat16", "torch_dtype": "bfloat16"}
    config |= {"rope_theta": 10000.0}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_weights(tensors, folder / "model.safetensors", {"format": "pt", **(metadata or {})})


def export_mtp(module: MtpModule, folder: Path) -> None:
    """Write mtp.safetensors beside the target's weights."""
    metadata = {
        "format": "pt",
        "mtp_format": "deepseek-v3",
        "eh_proj_input": "cat(enorm(embedding of token t+1), hnorm(target hidden t after its final norm))",
        "head": "target's embedding (tied)",
    }
    save_weights(module.checkpoint(), folder / "mtp.safetensors", metadata)
