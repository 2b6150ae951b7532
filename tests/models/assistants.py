"""Small random checkpoints of Gemma 4 with a drafter for it, and what the drafter computes, in transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4TextConfig

from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import CONTEXT, reference_model, write_checkpoint

WINDOW = 16  # of the small models
KINDS = ("sliding_attention", "full_attention")


@dataclass(frozen=True, slots=True)
class Reference:
    """A target and its drafter, float32."""

    target: Any
    assistant: Any

    @torch.inference_mode()
    def drafts(self, tokens: Sequence[int], drafted: Sequence[int]) -> Tensor:
        """Log-probabilities after `tokens` and after each of `drafted`, `[1 + drafted, vocab]`.

        The target has read all `tokens` but the newest.
        """
        known = torch.tensor([tokens[:-1]])
        out = self.target.model(known, use_cache=False, return_shared_kv_states=True)
        state, kv = out.last_hidden_state[:, -1:], out.shared_kv_states
        kv = {kind: kv[kind] for kind in KINDS}
        kv["sliding_attention"] = tuple(part[:, :, -WINDOW:] for part in kv["sliding_attention"])
        rows = []
        for token in (tokens[-1], *drafted):
            embedded = self.target.get_input_embeddings()(torch.tensor([[token]]))
            made = self.assistant(
                inputs_embeds=torch.cat((embedded, state), dim=-1),
                position_ids=torch.tensor([[len(tokens) - 1]]),
                shared_kv_states=kv,
            )
            state = made.last_hidden_state
            rows.append(made.logits[0, -1].log_softmax(-1))
        return torch.stack(rows)


def write_gemma4(
    folder: Path,
    assistant: Path,
    family: str = "gemma4",
    *,
    context: int = CONTEXT,
    **settings: Any,  # noqa: ANN401
) -> Reference:
    """Write a target and, into a folder of its own, its drafter of another width."""
    FAMILIES[family](folder, max_position_embeddings=context)
    target = reference_model(folder)
    text = target.config
    windowed, full = (text.per_layer_config[text.layer_types.index(kind)] for kind in KINDS)
    own = {
        "hidden_size": 48,
        "max_position_embeddings": context,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "num_kv_shared_layers": 3,
        "head_dim": windowed.head_dim,
        "num_key_value_heads": windowed.num_key_value_heads,
        "global_head_dim": full.head_dim,
        "sliding_window": WINDOW,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
        "attention_k_eq_v": text.attention_k_eq_v,
        "num_global_key_value_heads": full.num_key_value_heads,
        **settings,
    }

    def config(**sizes: Any) -> Gemma4AssistantConfig:  # noqa: ANN401
        text_config = Gemma4TextConfig(**sizes).to_dict()
        return Gemma4AssistantConfig(text_config=text_config, backbone_hidden_size=text.hidden_size, dtype="float32")

    write_checkpoint(assistant, Gemma4AssistantForCausalLM, config, seed=70, embedding=0.1, **own)
    return Reference(target, reference_model(assistant))


def write_agreeing_gemma4(folder: Path, *, max_position_embeddings: int) -> None:
    """Write a target, and beside it a drafter that is often right: both say little but what the newest token tells."""
    drafter = folder.parent / "assistant"
    write_gemma4(folder, drafter, context=max_position_embeddings, hidden_size=64)
    target = load_file(folder / "model.safetensors")
    width = target["model.norm.weight"].shape[0]
    shared = {
        "model.norm.weight": torch.randn(width, generator=torch.Generator().manual_seed(1)),
        "model.embed_tokens.weight": target["model.embed_tokens.weight"],
    }
    for one, own in ((folder, {}), (drafter, {"pre_projection.weight": torch.eye(width, 2 * width)})):
        tensors = load_file(one / "model.safetensors") | shared | own
        for name, tensor in tensors.items():
            if name.endswith(("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")):
                tensor *= 0.02
        save_file(tensors, one / "model.safetensors")
