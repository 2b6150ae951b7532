"""The real models as transformers has them: its own classes and configurations, and the file's weights.

Nothing of cede's reading takes part but the table of tensors: names, the order of rows and what is added to norms are
undone here a second time, and the `gguf` library expands the blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import quants
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

from runtime.checkpoint.gguf.header import TensorEntry, read_header

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
}
_LLAMA = {**_NAMES, "ffn_norm": "post_attention_layernorm"}
_GEMMA = {
    **_NAMES,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def smollm2_reference(path: Path) -> Any:  # noqa: ANN401
    """SmolLM2 135M Instruct in float32, by the figures of its config.json."""
    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )

    def undone(name: str, weight: torch.Tensor) -> torch.Tensor:
        heads = {"attn_q": 9, "attn_k": 3}.get(name)
        if heads is None:
            return weight
        # llama.cpp rotates neighbours: in each head the two halves of the rows are interleaved.
        return weight.view(heads, 32, 2, 576).transpose(1, 2).reshape(weight.shape)

    return _filled(LlamaForCausalLM(config), path, _LLAMA, undone)


def gemma3_reference(path: Path) -> Any:  # noqa: ANN401
    """Gemma 3 270M in float32, by the figures of its config.json."""
    config = Gemma3TextConfig(
        vocab_size=262_144,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window=512,
        layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 3,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
        },
        max_position_embeddings=32_768,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
    )

    def undone(name: str, weight: torch.Tensor) -> torch.Tensor:
        return weight - 1 if name.endswith("norm") else weight

    return _filled(Gemma3ForCausalLM(config), path, _GEMMA, undone)


def _filled(
    model: Any,  # noqa: ANN401
    path: Path,
    names: dict[str, str],
    undone: Callable[[str, torch.Tensor], torch.Tensor],
) -> Any:  # noqa: ANN401
    """Give a model the file's weights."""
    parameters = dict(model.named_parameters())
    for name, entry in read_header(path).tensors.items():
        *layer, short = name.removesuffix(".weight").split(".")
        prefix = f"model.layers.{layer[1]}." if layer else ""
        with torch.no_grad():
            parameters.pop(f"{prefix}{names[short]}.weight").copy_(undone(short, _expanded(entry)))
    assert not parameters, "parameters that the file has no tensor for"
    return model.eval()


def _expanded(entry: TensorEntry) -> torch.Tensor:
    stored = np.fromfile(entry.path, np.uint8, entry.num_bytes, offset=entry.offset)
    one_row = quants.dequantize(stored.reshape(1, -1), entry.kind)  # blocks know nothing of rows, and this is quick
    return torch.from_numpy(np.asarray(one_row, np.float32)).view(entry.shape)
