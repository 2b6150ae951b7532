"""Models of real shapes with random weights: speed depends on the shape, so no weights need to be downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.checkpoint.config import ModelConfig, parse_config
from runtime.kv.cache import KVCache
from runtime.loading.few_rows import open_few_rows
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.nn.weights import random_weights
from runtime.step.device import settle_kernels

if TYPE_CHECKING:
    import torch

# From the models' published config.json files.
SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-0.6b": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rope_theta": 1000000,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "attention_bias": False,
        "eos_token_id": 151645,
    },
    "smollm2-135m": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "rope_theta": 100000,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "eos_token_id": 0,
    },
}


def shape(name: str) -> ModelConfig:
    """Return the configuration of the shape called `name`."""
    return parse_config(SHAPES[name])


def random_model(
    config: ModelConfig,
    *,
    slots: int,
    context: int,
    device: torch.device,
    dtype: torch.dtype,
    quantize: Quantization = Quantization.NONE,
    native: str = "auto",
    deterministic: bool = False,
) -> Transformer:
    """Make a model with random weights, in the form that it would be served in.

    Args:
        config: its shape.
        slots: of the KV cache.
        context: tokens of a slot.
        device: for weights and KV.
        dtype: of weights and KV.
        quantize: how to quantise the weights.
        native: `off` to leave few rows to PyTorch's operations.
        deterministic: whether kernels are to compute all rows.
    """
    settle_kernels(device)
    kv = KVCache(config, slots=slots, context=context, device=device, dtype=dtype)
    few_rows = open_few_rows(native, config, device, dtype, deterministic=deterministic)
    formats = choose_formats(quantize, device, dtype, few_rows.kernels)
    weights = random_weights(config, device=device, dtype=dtype, seed=0, formats=formats)
    return Transformer(config, weights, kv, None, *few_rows, deterministic=deterministic)
