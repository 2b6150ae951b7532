"""Small random checkpoints with a module for multi-token prediction, and what the module computes, in plain PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config
from transformers.modeling_layers import MtpLayer
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RMSNorm, Qwen2RotaryEmbedding

from bench.training.models import MtpModule as DeepseekModule
from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import spread_weights


class MimoModule(Qwen2DecoderLayer):  # type: ignore[misc]
    """MiMo-7B's module as its authors publish it: the state comes first, and the layer's names have no prefix."""

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__(config, layer_idx=0)
        width = config.hidden_size
        self.token_layernorm = Qwen2RMSNorm(width, eps=config.rms_norm_eps)
        self.hidden_layernorm = Qwen2RMSNorm(width, eps=config.rms_norm_eps)
        self.input_proj = nn.Linear(2 * width, width, bias=False)
        self.final_layernorm = Qwen2RMSNorm(width, eps=config.rms_norm_eps)
        self.rotary = Qwen2RotaryEmbedding(config)

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """hidden, embedded  # [batch, rows, width] -> [batch, rows, width]."""
        joined = self.input_proj(torch.cat([self.hidden_layernorm(hidden), self.token_layernorm(embedded)], dim=-1))
        rotation = self.rotary(joined, torch.arange(joined.shape[1])[None])
        out = super().forward(joined, position_embeddings=rotation, attention_mask=None)
        normed: Tensor = self.final_layernorm(out[0] if isinstance(out, tuple) else out)
        return normed


class FurtherLayer(MtpLayer):  # type: ignore[misc]
    """DeepSeek-V3's module as transformers has it: a layer as the target's last one is."""

    def __init__(self, target: PreTrainedModel) -> None:
        own = target.config.get_mtp_config()
        super().__init__(own, type(target.model.layers[-1]), type(target.model.norm), 0)
        self.rotary = type(target.model.rotary_emb)(own)

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """hidden, embedded  # [batch, rows, width] -> [batch, rows, width]."""
        rotation = self.rotary(embedded, torch.arange(embedded.shape[1])[None])
        normed: Tensor = super().forward(embedded, hidden, rotation, None, None, None)
        return normed


class NemotronModule(nn.Module):
    """Nemotron 3's module: a layer that attends and one of experts, as vLLM and SGLang compute them."""

    def __init__(self, target: PreTrainedModel) -> None:
        super().__init__()
        own = deepcopy(target.config)
        own.layers_block_type = ["full_attention", "moe"]
        self.layers = nn.ModuleList(type(target.model.layers[0])(own, index) for index in range(2))
        first, last, width = *self.layers, own.hidden_size
        first.eh_proj = nn.Linear(2 * width, width, bias=False)
        first.enorm, first.hnorm, last.final_layernorm = (
            type(target.model.norm_f)(width, eps=own.layer_norm_epsilon) for _ in range(3)
        )

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """hidden, embedded  # [batch, rows, width] -> [batch, rows, width]."""
        first: Any
        last: Any
        first, last = self.layers
        joined = first.eh_proj(torch.cat([first.enorm(embedded), first.hnorm(hidden)], dim=-1))
        normed: Tensor = last.final_layernorm(last(first(joined)))
        return normed


@dataclass(frozen=True, slots=True)
class Reference:
    """A target and its module in transformers, float32.

    Attributes:
        raw: the module takes the target's states before the final norm.
    """

    target: Any
    module: nn.Module
    raw: bool

    @torch.inference_mode()
    def states(self, tokens: Sequence[int]) -> Tensor:
        """`[tokens, width]`, as the module takes them."""
        seen: list[Tensor] = []
        model = self.target.model
        hook = (model.norm_f if hasattr(model, "norm_f") else model.norm).register_forward_hook(
            lambda module, inputs, output: seen.append(inputs[0] if self.raw else output)
        )
        self.target.model(torch.tensor([tokens]))
        hook.remove()
        return seen[0][0]

    @torch.inference_mode()
    def drafts(self, tokens: Sequence[int], drafted: Sequence[int], *, first: int = 1) -> Tensor:
        """Log-probabilities after `tokens` and after each of `drafted`, `[1 + drafted, vocab]`.

        The target has read all `tokens` but the newest; the module begins at position `first`.
        """
        states, unread = self.states(tokens[:-1])[first - 1 :], [*tokens[first:]]
        rows = []
        for token in (*drafted, None):
            out = self.module(states[None], self.target.get_input_embeddings()(torch.tensor([unread])))[0]
            rows.append(self.target.lm_head(out[-1]).log_softmax(-1))
            if token is not None:
                unread.append(token)
                states = torch.cat((states, out[-1:]))
        return torch.stack(rows)


def write_deepseek(folder: Path) -> Reference:
    """Qwen3 with the module in `mtp.safetensors`, as the embedded model."""
    FAMILIES["qwen3"](folder)
    reference = _reference(folder, lambda target: DeepseekModule(target.config), raw=False)
    assert isinstance(reference.module, DeepseekModule)
    save_file(_contiguous(reference.module.checkpoint()), folder / "mtp.safetensors")
    return reference


def write_mimo(folder: Path, *, modules: int = 1) -> Reference:
    """MiMo, whose modules are among the target's tensors; the reference has the first one."""
    FAMILIES["qwen2-window"](folder)
    config = json.loads((folder / "config.json").read_text())
    plain = {"use_sliding_window": False, "layer_types": None}
    (folder / "config.json").write_text(json.dumps(config | plain))
    reference = _reference(folder, lambda target: MimoModule(target.config), raw=True)
    tensors = load_file(folder / "model.safetensors")
    for index in range(modules):
        module = reference.module.state_dict()
        tensors |= {f"model.mtp_layers.{index}.{name}": tensor + index for name, tensor in module.items()}
    save_file(_contiguous(tensors), folder / "model.safetensors")
    mimo = {"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "num_nextn_predict_layers": modules}
    (folder / "config.json").write_text(json.dumps(config | plain | mimo))
    return reference


def write_deepseek3(folder: Path) -> Reference:
    """DeepSeek-V3, whose module is numbered on behind the target's layers, with what it repeats of the target."""
    return _write_further_layer(folder, "deepseek3")


def write_glm4_moe(folder: Path) -> Reference:
    """GLM-4.5 likewise."""
    return _write_further_layer(folder, "glm4-moe-qk-norm")


def write_glm4_moe_lite(folder: Path) -> Reference:
    """GLM-4.7-Flash likewise; its configuration class says nothing of the module."""
    return _write_further_layer(folder, "glm4-moe-lite", num_mtp_layers=1, mtp_mlp_layer_types=["sparse"])


def write_qwen3_next(folder: Path, **settings: Any) -> Reference:  # noqa: ANN401
    """Qwen3-Next, whose module has names of its own, and an attention layer with experts."""
    return _write_qwen(folder, "qwen3-next", **settings)


def write_qwen3_5(folder: Path, **settings: Any) -> Reference:  # noqa: ANN401
    """Qwen3.5 likewise, with an MLP; the head is the embedding."""
    return _write_qwen(folder, "qwen3.5", **settings)


def write_qwen3_5_moe(folder: Path, **settings: Any) -> Reference:  # noqa: ANN401
    """Qwen3.5 with experts, likewise; those of a layer are one tensor."""
    return _write_qwen(folder, "qwen3.5-moe", **settings)


def write_nemotron(folder: Path) -> Reference:
    """Nemotron 3 Super, whose module is of two layers, with two matrices for each expert."""
    FAMILIES["nemotron-h-latent"](folder)
    reference = _reference(folder, NemotronModule, raw=False)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in reference.module.state_dict().items():
        before, of_experts, projection = f"mtp.{name}".partition(".experts.")
        named = {f"{before}.experts.{i}.{projection}.weight": one for i, one in enumerate(tensor) if of_experts}
        tensors |= named or {f"mtp.{name}": tensor}
    save_file(_contiguous(tensors), folder / "model.safetensors")
    return reference


def write_agreeing_qwen3_5(folder: Path, **settings: Any) -> None:  # noqa: ANN401
    """Qwen3.5 whose module is often right: the layers of both add so little that the last token tells much."""
    write_qwen3_5(folder, tie_word_embeddings=False, **settings)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            tensor *= 5e-4
    width = tensors["mtp.norm.weight"].shape[0]
    tensors["mtp.fc.weight"] = torch.eye(width, 2 * width)  # the embedding alone
    tensors["mtp.pre_fc_norm_embedding.weight"].zero_()
    tensors["mtp.norm.weight"] = tensors["model.norm.weight"].clone()
    save_file(tensors, folder / "model.safetensors")


_QWEN_PARTS = {
    "eh_proj.": "fc.",
    "enorm.": "pre_fc_norm_embedding.",
    "hnorm.": "pre_fc_norm_hidden.",
    "post_norm.": "norm.",
    "mtp_block.": "layers.0.",
}


def _write_qwen(folder: Path, family: str, **settings: Any) -> Reference:  # noqa: ANN401
    FAMILIES[family](folder, num_mtp_layers=1, mtp_layer_types=["full_attention"], **settings)
    reference = _reference(folder, FurtherLayer, raw=False)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in reference.module.state_dict().items():
        part = next(part for part in _QWEN_PARTS if name.startswith(part))
        tensors[f"mtp.{_QWEN_PARTS[part]}{name.removeprefix(part)}"] = tensor
    save_file(_contiguous(tensors), folder / "model.safetensors")
    return reference


def _write_further_layer(folder: Path, family: str, **settings: Any) -> Reference:  # noqa: ANN401
    FAMILIES[family](folder, **settings)
    reference = _reference(folder, FurtherLayer, raw=False)
    tensors = load_file(folder / "model.safetensors")
    prefix = f"model.layers.{reference.target.config.num_hidden_layers}."
    for name, tensor in reference.module.state_dict().items():
        published = name.removeprefix("mtp_block.").replace("post_norm.", "shared_head.norm.")
        tensors[f"{prefix}{published}"] = tensor
    tensors[f"{prefix}embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors[f"{prefix}shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    save_file(_contiguous(tensors), folder / "model.safetensors")
    return reference


def _reference(folder: Path, module: Callable[[Any], nn.Module], *, raw: bool) -> Reference:
    target = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    reference = Reference(target, module(target), raw)
    spread_weights(reference.module, seed=99)
    return reference


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
