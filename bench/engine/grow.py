"""The embedded model in the shape of a larger one: the same function at a real model's cost.

    python -m bench.engine.grow FOLDER [--shape qwen3-0.6b]

Acceptance can only be measured on a model that has learnt something, and the cost of a step only on one of a real size.
So each of the embedded target's matrices is laid into the corner of a larger one of zeros, and layers are added whose
output projections are zero: every product is as large as in the shape, and the text is the embedded model's.  A norm
over a wider row, of which only the old part is not zero, comes out larger by the root of the ratio of the widths; its
weight makes up for it.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import torch
from safetensors.torch import load_file, save_file

from bench.engine.models.shapes import SHAPES
from runtime.store.resolve import resolve_model

if TYPE_CHECKING:
    from torch import Tensor

COPIED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
SILENT = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
"""The projections through which a layer adds to its input.  In added layers they are zero."""


def grown_config(small: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """Return the config `small` with the sizes of `shape`.  Heads keep their width, and there are more of them.

    Raises:
        ValueError: the two have different numbers of query heads for each KV head.
    """
    head_dim = small["head_dim"]
    wide = shape.get("head_dim", shape["hidden_size"] // shape["num_attention_heads"])
    heads, kv_heads = (shape[key] * wide // head_dim for key in ("num_attention_heads", "num_key_value_heads"))
    if heads * small["num_key_value_heads"] != kv_heads * small["num_attention_heads"]:
        raise ValueError("the shape has another number of query heads for each KV head")
    layers = shape["num_hidden_layers"]
    sizes = {key: shape[key] for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")}
    return {
        **small,
        **sizes,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "layer_types": ["full_attention"] * layers,
        "max_window_layers": layers,
        "rms_norm_eps": small["rms_norm_eps"] * small["hidden_size"] / shape["hidden_size"],
    }


def grown_shape(name: str, config: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of the tensor called `name` in a model of `config`."""
    hidden, intermediate, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    shapes = {
        "embed_tokens": (config["vocab_size"], hidden),
        "q_proj": (queries, hidden),
        "k_proj": (keys, hidden),
        "v_proj": (keys, hidden),
        "o_proj": (hidden, queries),
        "gate_proj": (intermediate, hidden),
        "up_proj": (intermediate, hidden),
        "down_proj": (hidden, intermediate),
        "q_norm": (dim,),
        "k_norm": (dim,),
        "eh_proj": (hidden, 2 * hidden),
    }
    return shapes.get(name.split(".")[-2], (hidden,))  # the others are norms of a row


def grow(name: str, tensor: Tensor, config: dict[str, Any]) -> Tensor:
    """Return the tensor called `name` as a model of `config` has it."""
    shape = grown_shape(name, config)
    if name.endswith("eh_proj.weight"):  # two matrices side by side
        return torch.cat([padded(half, (shape[0], shape[1] // 2)) for half in tensor.chunk(2, dim=1)], dim=1)
    if tensor.ndim == 1:  # a norm
        tensor = tensor * math.sqrt(tensor.shape[0] / shape[0])
    return padded(tensor, shape)


def padded(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return `tensor` in the corner of a larger one of zeros."""
    large = torch.zeros(shape, dtype=tensor.dtype)
    large[tuple(slice(size) for size in tensor.shape)] = tensor
    return large


def added_layers(small: dict[str, Tensor], first: int, config: dict[str, Any]) -> dict[str, Tensor]:
    """Return layers from `first` on that cost what any other does, and add nothing."""
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for layer in range(first, config["num_hidden_layers"]):
        for name, like in small.items():
            if not name.startswith("model.layers.0."):
                continue
            shape = grown_shape(name, config)
            if name.endswith(SILENT):
                made = torch.zeros(shape)
            else:
                made = torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=generator) * 0.02
            tensors[name.replace(".0.", f".{layer}.", 1)] = made.to(like.dtype)
    return tensors


def write_grown(source: Path, output: Path, shape: dict[str, Any]) -> None:
    """Write the checkpoint in `source`, grown to `shape`, with its MTP module, to the folder `output`."""
    small_config = json.loads((source / "config.json").read_text())
    config = grown_config(small_config, shape)
    output.mkdir(parents=True, exist_ok=True)
    (output / "config.json").write_text(json.dumps(config, indent=2))
    for name in COPIED:
        if (source / name).exists():
            shutil.copy(source / name, output / name)
    small = load_file(source / "model.safetensors")
    large = {name: grow(name, tensor, config) for name, tensor in small.items()}
    large |= added_layers(small, small_config["num_hidden_layers"], config)
    save_file(large, output / "model.safetensors", {"format": "pt"})
    module = load_file(source / "mtp.safetensors")
    save_file({name: grow(name, tensor, config) for name, tensor in module.items()}, output / "mtp.safetensors")


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--shape", type=click.Choice(list(SHAPES)), default="qwen3-0.6b", show_default=True)
def main(folder: Path, shape: str) -> None:
    """Write the grown model to FOLDER."""
    write_grown(resolve_model(None), folder, SHAPES[shape])


if __name__ == "__main__":
    main()
