"""Small random checkpoints of the families of which most layers are recurrent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from transformers import Lfm2Config, Lfm2ForCausalLM

from tests.models.families.writing import write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

_lfm2 = partial(
    write_checkpoint,
    model_class=Lfm2ForCausalLM,
    config_class=Lfm2Config,
    embedding=0.1,
    block_multiple_of=32,
    block_ffn_dim_multiplier=1.5,
    layer_types=["conv", "full_attention", "conv"],
)

HYBRID_FAMILIES: dict[str, Callable[..., None]] = {
    "lfm2": partial(_lfm2, seed=50),
    "lfm2-bias": partial(
        _lfm2, seed=51, conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False, tie_word_embeddings=False
    ),
}
