"""Normalisation in a decoder: how, and where in its layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

NormKind = Literal["rms", "layer"]

# Of query and key heads: one weight that all heads share (Qwen 3), one for each head (Cohere), or one norm of all query
# heads together and one of all key heads (OLMo 2); or as the first, and value heads without a weight (Gemma 4).
QkNorm = Literal["shared", "by_head", "joint", "with_values"]


@dataclass(frozen=True, slots=True)
class Norms:
    """The norms of a family.

    A place in a layer has the name of its norm in the file; None where there is none.

    Attributes:
        kind: root mean square, or LayerNorm without a bias.
        offset: is added to each weight of the file.
        float32: weights are kept in float32 whatever the dtype, for their sums with the offset do not fit bfloat16.
        eps_key: the key of config.json that has what is added to the mean square.
        before_attention: of what attention reads.
        after_attention: of what attention adds to the hidden states.
        before_mlp: of what the MLP reads.
        after_mlp: of what the MLP adds.
        parallel: the MLP reads what attention reads, so it does not see what attention has added.
        of_recurrent: those of recurrent layers, where they are in other places than those of attention.
    """

    kind: NormKind = "rms"
    offset: float = 0.0
    float32: bool = False
    eps_key: str = "rms_norm_eps"
    before_attention: str | None = "input_layernorm"
    after_attention: str | None = None
    before_mlp: str | None = "post_attention_layernorm"
    after_mlp: str | None = None
    parallel: bool = False
    of_recurrent: Norms | None = None

    def of_layer(self, *, recurrent: bool, mixes: bool = True, has_mlp: bool = True) -> Norms:
        """Return those of a layer that is recurrent or attends, and may lack one of its two parts."""
        norms = self.of_recurrent if recurrent and self.of_recurrent is not None else self
        if not mixes:
            norms = replace(norms, before_attention=None, after_attention=None)
        return norms if has_mlp else replace(norms, before_mlp=None, after_mlp=None)


LLAMA = Norms()
GEMMA = Norms(offset=1.0, float32=True)
# Of these, `post_attention_layernorm` stands behind attention, not before the MLP.
GEMMA_AROUND = Norms(
    offset=1.0,
    float32=True,
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
GEMMA4_AROUND = replace(GEMMA_AROUND, offset=0.0, float32=False)
OLMO2 = Norms(
    before_attention=None,
    after_attention="post_attention_layernorm",
    before_mlp=None,
    after_mlp="post_feedforward_layernorm",
)
OLMO_HYBRID = replace(OLMO2, of_recurrent=LLAMA)
NEMOTRON = Norms(eps_key="layer_norm_epsilon", before_attention="norm", before_mlp="mlp.norm")
LFM2 = Norms(eps_key="norm_eps", before_attention="operator_norm", before_mlp="ffn_norm")
GLM4 = Norms(after_attention="post_self_attn_layernorm", after_mlp="post_mlp_layernorm")
COHERE = Norms(kind="layer", eps_key="layer_norm_eps", before_mlp=None, parallel=True)
