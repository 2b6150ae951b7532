"""The three networks: the Qwen3-shaped target and draft, and the MTP module over the target's hidden states."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RMSNorm, Qwen3RotaryEmbedding

from bench.training.tokenizer import CONTEXT, VOCABULARY


def config_of(hidden: int, layers: int, heads: int, kv_heads: int, intermediate: int) -> Qwen3Config:
    """Return a Qwen3 configuration of these sizes."""
    return Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=hidden // heads,
        intermediate_size=intermediate,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        attention_bias=False,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )


def build_target() -> Qwen3ForCausalLM:
    """Make the target: 5.0 M parameters.  Five layers and heads of 64 trained faster than six layers or heads of 32."""
    return Qwen3ForCausalLM(config_of(hidden=256, layers=5, heads=4, kv_heads=2, intermediate=768))


def build_draft() -> Qwen3ForCausalLM:
    """Make the draft: 0.9 M parameters, of which the embedding is 0.5 M."""
    return Qwen3ForCausalLM(config_of(hidden=128, layers=2, heads=4, kv_heads=2, intermediate=384))


class MtpModule(nn.Module):
    """One multi-token-prediction module in DeepSeek-V3's form (arXiv 2412.19437, section 2.2).

    Row t joins the target's hidden state at t (after its final norm) with the embedding of token t+1, and its output
    row, put through the target's head, scores token t+2. The layer is causal over rows, row t at rotary position t.
    """

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.enorm = Qwen3RMSNorm(width, eps=config.rms_norm_eps)
        self.hnorm = Qwen3RMSNorm(width, eps=config.rms_norm_eps)
        self.eh_proj = nn.Linear(2 * width, width, bias=False)
        self.layer = Qwen3DecoderLayer(config, layer_idx=0)
        self.norm = Qwen3RMSNorm(width, eps=config.rms_norm_eps)
        self.rotary = Qwen3RotaryEmbedding(config)

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Return the output after ``shared_head.norm``  # [batch, rows, width].

        Args:
            hidden: the target's states  # [batch, rows, width].
            embedded: of the tokens that come next, of the same shape.
        """
        joined: Tensor = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], dim=-1))
        positions = torch.arange(joined.shape[1], device=joined.device)[None]
        rotation = self.rotary(joined, positions)
        out = self.layer(joined, position_embeddings=rotation, attention_mask=None)
        normed: Tensor = self.norm(out[0] if isinstance(out, tuple) else out)
        return normed

    def checkpoint(self) -> dict[str, Tensor]:
        """Return the tensors under the names of DeepSeek-V3's checkpoints, without the layer prefix."""
        return {checkpoint_name(name): tensor for name, tensor in self.state_dict().items()}

    def load_checkpoint(self, tensors: dict[str, Tensor]) -> None:
        """Load what `checkpoint` returned."""
        self.load_state_dict({name: tensors[checkpoint_name(name)] for name in self.state_dict()})


def checkpoint_name(name: str) -> str:
    """Return DeepSeek-V3's name for a tensor of the module."""
    return "shared_head.norm.weight" if name == "norm.weight" else name.removeprefix("layer.")
