"""Families of which most layers are recurrent, and few attend."""

from __future__ import annotations

from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.layer_kinds import CONV, attention_by_number
from runtime.checkpoint.families.layout import renamed
from runtime.checkpoint.families.norms import LFM2
from runtime.checkpoint.families.recurrent import short_conv
from runtime.checkpoint.families.sizes import lfm2_mlp

_LFM2 = Family(
    "lfm2",
    norms=LFM2,
    qk_norm="shared",
    mlp_size=lfm2_mlp,
    layer_types=attention_by_number,
    reads_layer_types=True,
    recurrent={CONV: short_conv},
    layout=(
        renamed(
            {
                "model.embedding_norm": "model.norm",
                "self_attn.out_proj": "self_attn.o_proj",
                "self_attn.q_layernorm": "self_attn.q_norm",
                "self_attn.k_layernorm": "self_attn.k_norm",
                "feed_forward": "mlp",
                "mlp.w1": "mlp.gate_proj",
                "mlp.w3": "mlp.up_proj",
                "mlp.w2": "mlp.down_proj",
            }
        ),
    ),
    aliases={"tie_embedding": "tie_word_embeddings", "block_ff_dim": "intermediate_size"},
    defaults={
        "num_key_value_heads": 8,
        "norm_eps": 1e-5,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": True,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "full_attn_idxs": None,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)

HYBRID_FAMILIES: dict[str, Family] = {
    "Lfm2ForCausalLM": _LFM2,
}
