"""Small random checkpoints of every family that cede reads, written by transformers itself.

`FAMILIES[name](folder)` fills `folder` with config.json, generation_config.json, float32 safetensors and a
tokenizer.  The weights are spread so widely that greedy continuations wander and that one token wins clearly:
two implementations can be held to the same text, which a forgotten bias, norm, window or rotation changes.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    DeepseekV2Config,
    DeepseekV2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")  # ids 256 to 259, behind the bytes
VOCAB_SIZE = 256 + len(SPECIALS)
CONTEXT = 256  # tokens

_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

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
    config_class: type[Any],
    *,
    seed: int,
    embedding: float = 0.3,
    shard_size: str | None = None,
    **settings: Any,  # noqa: ANN401
) -> None:
    """Write a model of `settings` over the small common sizes, its weights drawn from `seed`.

    A family that scales its embedding, or gives it to a tied head, wants less of it: else each token predicts itself.
    """
    model = model_class(config_class(**{**_SIZES, **settings}))
    spread_weights(model, seed, embedding)
    model.generation_config.eos_token_id = [256, 258]
    model.save_pretrained(folder, **({} if shard_size is None else {"max_shard_size": shard_size}))
    write_tokenizer(folder)


@torch.no_grad()
def spread_weights(model: torch.nn.Module, seed: int, embedding: float = 0.3) -> None:
    """Draw all parameters anew: norms about 1, biases and matrices wide, special tokens never the likeliest.

    Each has a generator of its own, so that the order in which a module lists them does not matter.
    """
    corrections = [named for named in model.named_buffers() if named[0].endswith("e_score_correction_bias")]
    for index, (name, parameter) in enumerate(sorted([*model.named_parameters(), *corrections])):
        generator = torch.Generator().manual_seed(seed * 1000 + index)
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            parameter.copy_(1 + 0.2 * noise)
        elif name.endswith("bias"):
            parameter.copy_(0.3 * noise)
        elif name.endswith(("embed_tokens.weight", "lm_head.weight")):
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


_llama = partial(write_checkpoint, model_class=LlamaForCausalLM, config_class=LlamaConfig)
_mistral = partial(write_checkpoint, model_class=MistralForCausalLM, config_class=MistralConfig)
_qwen2 = partial(write_checkpoint, model_class=Qwen2ForCausalLM, config_class=Qwen2Config)
_qwen3 = partial(write_checkpoint, model_class=Qwen3ForCausalLM, config_class=Qwen3Config)
_mixtral = partial(write_checkpoint, model_class=MixtralForCausalLM, config_class=MixtralConfig, num_local_experts=4)
_gpt_oss = partial(
    write_checkpoint,
    model_class=GptOssForCausalLM,
    config_class=GptOssConfig,
    num_local_experts=6,
    num_experts_per_tok=3,
    head_dim=16,
    sliding_window=16,
)
_qwen3_moe = partial(
    write_checkpoint,
    model_class=Qwen3MoeForCausalLM,
    config_class=Qwen3MoeConfig,
    num_experts=8,
    num_experts_per_tok=3,
    moe_intermediate_size=48,
)
_smollm3 = partial(write_checkpoint, model_class=SmolLM3ForCausalLM, config_class=SmolLM3Config)
_deepseek2 = partial(write_checkpoint, model_class=DeepseekV2ForCausalLM, config_class=DeepseekV2Config)
_deepseek3 = partial(write_checkpoint, model_class=DeepseekV3ForCausalLM, config_class=DeepseekV3Config)

_gemma3 = partial(
    write_checkpoint,
    model_class=Gemma3ForCausalLM,
    config_class=Gemma3TextConfig,
    embedding=0.05,
    head_dim=32,
    query_pre_attn_scalar=24,
    sliding_window=16,
)

_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
_YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
# Of other widths each, so that none can be taken for another.
_LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 48,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "moe_intermediate_size": 32,
}
_LATENT_YARN_ROPE = {**_YARN_ROPE, "mscale": 0.8, "mscale_all_dim": 0.6}

_DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
_FULL_IN_THE_MIDDLE = ["sliding_attention", "full_attention", "sliding_attention"]

FAMILIES: dict[str, Callable[[Path], None]] = {
    "llama": partial(_llama, seed=1),
    "llama-mha": partial(_llama, seed=2, num_key_value_heads=4),
    "llama3-rope": partial(_llama, seed=3, rope_parameters=_LLAMA3_ROPE),
    "linear-rope": partial(_llama, seed=4, rope_parameters=_LINEAR_ROPE),
    "yarn-rope": partial(_llama, seed=5, rope_parameters=_YARN_ROPE),
    "llama-bias": partial(_llama, seed=6, attention_bias=True, mlp_bias=True),
    "llama-sharded": partial(_llama, seed=1, shard_size="100KB"),  # the weights of "llama"
    "smollm": partial(_llama, seed=7, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True),
    "smollm3": partial(_smollm3, seed=8, no_rope_layers=[1, 0, 1]),
    "mistral": partial(_mistral, seed=9, sliding_window=16),
    "mistral-full": partial(_mistral, seed=10, sliding_window=None, head_dim=32),
    "qwen2": partial(_qwen2, seed=11, tie_word_embeddings=True),
    "qwen2-window": partial(_qwen2, seed=12, use_sliding_window=True, sliding_window=16, max_window_layers=1),
    "qwen3": partial(_qwen3, seed=13, head_dim=32),
    "mixtral": partial(_mixtral, seed=21),
    "mixtral-window": partial(_mixtral, seed=22, sliding_window=16, tie_word_embeddings=True),
    "qwen3-moe": partial(_qwen3_moe, seed=23, norm_topk_prob=True, mlp_only_layers=[1]),
    "qwen3-moe-shares": partial(_qwen3_moe, seed=24, head_dim=32, decoder_sparse_step=2),
    "gpt-oss": partial(_gpt_oss, seed=35, rope_parameters={**_YARN_ROPE, "truncate": False}),
    "gpt-oss-plain-rope": partial(_gpt_oss, seed=26, rope_parameters=_DEFAULT_ROPE, swiglu_limit=1.5),
    "qwen3-tied": partial(_qwen3, seed=14, head_dim=16, tie_word_embeddings=True, attention_bias=True),
    "gemma3": partial(_gemma3, seed=20, layer_types=_FULL_IN_THE_MIDDLE),
    "gemma3-rope": partial(
        _gemma3,
        seed=21,
        num_key_value_heads=1,
        sliding_window_pattern=2,
        rope_parameters={"sliding_attention": _DEFAULT_ROPE, "full_attention": _LINEAR_ROPE},
    ),
    "deepseek2-lite": partial(_deepseek2, seed=15, **_LATENT, q_lora_rank=None, num_experts_per_tok=3),
    "deepseek2": partial(
        _deepseek2,
        seed=16,
        **_LATENT,
        q_lora_rank=32,
        rope_parameters=_LATENT_YARN_ROPE,
        topk_method="group_limited_greedy",
        n_group=4,
        topk_group=2,
        num_experts_per_tok=3,
        routed_scaling_factor=1.5,
    ),
    "deepseek3": partial(
        _deepseek3,
        seed=17,
        **_LATENT,
        q_lora_rank=32,
        attention_bias=True,
        n_group=4,
        topk_group=2,
        num_experts_per_tok=3,
    ),
    "deepseek3-plain": partial(
        _deepseek3,
        seed=18,
        **{**_LATENT, "first_k_dense_replace": 3},
        q_lora_rank=None,
        rope_interleave=False,
        rope_parameters=_LATENT_YARN_ROPE,
    ),
}
