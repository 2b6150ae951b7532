"""Small models, each by PyTorch's operations and by the kernels, and their steps."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch

from runtime.checkpoint.config import parse_config
from runtime.devices.native.structures import MOST_ROWS
from runtime.kv.cache import KVCache
from runtime.kv.rings import plan_rings
from runtime.kv.states import StateBuffers
from runtime.nn.matrices.linear import Linear, PlainMatrix, WeightFormats
from runtime.nn.model import Transformer
from runtime.nn.source import RandomSource
from runtime.nn.weights import build_weights
from runtime.step.step import Segment
from tests.models.step_driver import pages_of, with_states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.native.kernels import Kernels
    from runtime.nn.layers.batch import Batch

CPU = torch.device("cpu")
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 320,
    "hidden_size": 192,
    "intermediate_size": 448,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "eos_token_id": 0,
}
QWEN2 = LLAMA | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "head_dim": None}  # biases
QWEN3 = LLAMA | {  # norms of heads, whose size is not a part of the hidden size
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
}
GRANITE = LLAMA | {  # its own factors
    "architectures": ["GraniteForCausalLM"],
    "model_type": "granite",
    "attention_multiplier": 0.25,
    "residual_multiplier": 0.5,
    "embedding_multiplier": 3.0,
    "logits_scaling": 2.0,
}
GEMMA3 = LLAMA | {  # GELU, norms on both sides, windows in all layers but each second, and another rope there
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "hidden_act": None,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 24,
    "sliding_window": 12,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
}
MINISTRAL3 = LLAMA | {  # a window, and queries that grow with their position
    "architectures": ["Ministral3ForCausalLM"],
    "model_type": "ministral3",
    "sliding_window": 7,
    "rope_parameters": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 8,
        "llama_4_scaling_beta": 0.5,
    },
}
HUNYUAN = LLAMA | {  # heads that are normalised after they were rotated
    "architectures": ["HunYuanDenseV1ForCausalLM"],
    "model_type": "hunyuan_v1_dense",
    "head_dim": 64,
}
GEMMA4 = GEMMA3 | {  # heads of two sizes, inputs of each layer, and the last two read the KV of the first two
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "global_head_dim": 128,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": 320,
}
GEMMA3N = GEMMA4 | {  # several streams of hidden states
    "architectures": ["Gemma3nForCausalLM"],
    "model_type": "gemma3n_text",
    "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0],
    "laurel_rank": 16,
}
PHI3 = LLAMA | {  # half of each head is rotated
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_size": 256,
    "partial_rotary_factor": 0.5,
    "pad_token_id": 0,
}
SMOLLM3 = LLAMA | {  # each second layer rotates nothing
    "architectures": ["SmolLM3ForCausalLM"],
    "model_type": "smollm3",
    "no_rope_layers": [1, 0],
    "pad_token_id": 0,
}
LFM2 = LLAMA | {  # a convolution in the place of attention in every second layer, and in all of them biases
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "head_dim": None,
    "hidden_act": None,
    "rms_norm_eps": None,
    "tie_word_embeddings": None,
    "norm_eps": 1e-5,
    "block_auto_adjust_ff_dim": False,
    "conv_bias": True,
    "layer_types": ["conv", "full_attention"],
}
QWEN3_5 = LLAMA | {  # the gated delta rule in every second layer, two heads to one of keys, and attention with gates
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "num_attention_heads": 4,
    "head_dim": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 80,
    "linear_conv_kernel_dim": 4,
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
}
GRANITE_HYBRID = GRANITE | {  # Mamba 2 in every second layer
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "shared_intermediate_size": 448,
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "position_embedding_type": "nope",
    "layer_types": ["mamba", "attention"],
    "mamba_expand": 4,
    "mamba_n_heads": 64,
    "mamba_d_head": 16,
    "mamba_n_groups": 2,
    "mamba_d_state": 48,
    "hidden_size": 256,
}
NEMOTRON: dict[str, Any] = {  # layers of one part each: Mamba 2, an MLP without gates, and attention
    **{key: LLAMA[key] for key in ("vocab_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")},
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "hidden_size": 192,
    "head_dim": 32,
    "num_hidden_layers": 3,
    "max_position_embeddings": 512,
    "layers_block_type": ["linear_attention", "mlp", "full_attention"],
    "mamba_num_heads": 16,
    "mamba_head_dim": 16,
    "n_groups": 4,
    "ssm_state_size": 32,
    "eos_token_id": 0,
}
KIMI = LLAMA | {  # channels of keys that decay each by itself, and latent attention
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "num_key_value_heads": 6,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_heads": 4,
    "linear_head_dim": 32,
    "kv_lora_rank": 32,
    "first_k_dense_replace": 2,
}
FEW = (1, 2, 3, 4, 5, 7, 8, 9, MOST_ROWS - 1, MOST_ROWS)  # rows, of all remainders of what is computed at a time
CONTEXT, SLOTS = 256, MOST_ROWS
SLACK = MOST_ROWS  # positions of a ring beyond its window, and so the most rows of a step


class Drawn(RandomSource):
    """Weights that all matter: norms that differ, and products as large as what they are added to."""

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return numbers around one for a norm."""
        place = super().tensor(name, *shape, dtype=dtype)
        if name.endswith("norm.weight"):
            place.add_(torch.randn(place.shape, generator=self._generator).mul_(0.3))
        return place

    def _fill(self, place: torch.Tensor) -> torch.Tensor:
        return super()._fill(place).mul_(4.0)


class InParts(Drawn):
    """The same, of which values and the products that gates let through are matrices of their own.

    These are in the format that the head would have.
    """

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return neighbours in one matrix, of the numbers that the whole would have."""
        outputs = sum(parts.values())
        weight, biases = self._draw(outputs, inputs), self._draw(outputs) if bias else None
        matrices, done = [], 0
        for is_other, names in groupby(parts, lambda name: name.endswith(("v_proj", "up_proj"))):
            rows = slice(done, done + sum(parts[name] for name in names))
            made = self._format(head=head or is_other)
            matrices.append(made(weight[rows], None if biases is None else biases[rows]))
            done = rows.stop
        return Linear(*matrices)


class Opaque:
    """A format that the kernels do not know."""

    form = "opaque"
    nbytes = 0

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._plain = PlainMatrix(weight, bias)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        return self._plain(x)


def kv_of(config: ModelConfig, dtype: torch.dtype) -> KVCache:
    """KV of a few slots, with small rings for layers with a window, so that they come around."""
    rings = plan_rings(config.window, CONTEXT, slack=SLACK)
    return KVCache(config, slots=SLOTS, context=CONTEXT, device=CPU, dtype=dtype, rings=rings)


def buffers_of(config: ModelConfig, dtype: torch.dtype) -> StateBuffers | None:
    """Buffers for all states that `with_states` names; None for a model that has none."""
    return StateBuffers(config, count=SLOTS * (CONTEXT + 1), device=CPU, dtype=dtype) if config.is_hybrid else None


def both(
    settings: dict[str, Any],
    dtype: torch.dtype,
    kernels: Kernels,
    formats: WeightFormats,
    *,
    deterministic: bool = False,
    source: type[Drawn] = Drawn,
) -> tuple[Transformer, Transformer]:
    """Two models of the same weights: PyTorch's, and one with the kernels."""
    config = parse_config({name: value for name, value in settings.items() if value is not None})
    weights = build_weights(source(CPU, dtype, 1, formats), config)
    return (
        Transformer(config, weights, kv_of(config, dtype), buffers=buffers_of(config, dtype)),
        Transformer(
            config,
            weights,
            kv_of(config, dtype),
            kernels=kernels,
            deterministic=deterministic,
            buffers=buffers_of(config, dtype),
        ),
    )


def run(model: Transformer, segments: Sequence[Segment], *, together: bool = True) -> Batch:
    """Run all layers, several in one call where the model can, or each by itself."""
    batch, index = model.begin(with_states(model, segments)), 0
    while index < model.num_layers:
        ran = len(model.run_layers(batch, index)) if together else 0
        if not ran:
            model.run_layer(batch, index)
        index += ran or 1
    return batch


def segments_of(step: dict[int, int], lengths: dict[int, int]) -> list[Segment]:
    """The step's segments, of random tokens; the slots are then as long as they say."""
    made = []
    for slot, rows in step.items():
        start = lengths.get(slot, 0)
        lengths[slot] = start + rows
        made.append(Segment(slot, start, torch.randint(1, 320, (rows,)).tolist(), pages=pages_of(slot, CONTEXT)))
    return made


def states_left(model: Transformer, segments: Sequence[Segment]) -> list[torch.Tensor]:
    """Return all parts of the states that segments have left, in each layer that has any."""
    if model.buffers is None:
        return []
    written = [buffer for segment in with_states(model, segments) for _, buffer in segment.next_states]
    states = enumerate(model.config.states)
    return [model.buffers.part(layer, i)[written] for layer, parts in states for i in range(len(parts or ()))]


def difference(own: torch.Tensor, reference: torch.Tensor) -> float:
    """Return how far apart, as a part of the reference's size."""
    return float((own.float() - reference.float()).norm() / reference.float().norm())
