"""A hybrid model of random weights as a GGUF file, in the shape of Qwen3.5-0.8B but for its vocabulary.

    python -m bench.engine.models.random_gguf hybrid.gguf --vocabulary SmolLM2.gguf [--type F16]

Any server that reads the architecture `qwen35` can serve it, so several are measured with the same file.  The
vocabulary is another file's: with 49,152 tokens the head has a tenth of all weights, and the published one a third.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

TYPES = {name: GGMLQuantizationType[name] for name in ("Q8_0", "F16", "Q4_0", "Q4_1")}
SECTIONS = [11, 11, 10, 0]  # of time, height, width: in text all pairs turn alike


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Sizes: those of Qwen3.5-0.8B's published config.json.  There are as many heads of values as of keys."""

    layers: int = 24
    attends_every: int = 4
    hidden: int = 1024
    intermediate: int = 3584
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 256
    rotated: int = 64
    linear_heads: int = 16
    linear_dim: int = 128
    kernel: int = 4
    context: int = 262144

    def shapes(self, tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and the shape of each tensor for a vocabulary of so many tokens; the head is the embedding."""
        yield "token_embd.weight", (tokens, self.hidden)
        yield "output_norm.weight", (self.hidden,)
        for layer in range(self.layers):
            attends = (layer + 1) % self.attends_every == 0
            parts = self._mlp() | (self._attention() if attends else self._recurrent())
            yield from ((f"blk.{layer}.{name}", shape) for name, shape in parts.items())

    def _mlp(self) -> dict[str, tuple[int, ...]]:
        return {
            "attn_norm.weight": (self.hidden,),
            "post_attention_norm.weight": (self.hidden,),
            "ffn_gate.weight": (self.intermediate, self.hidden),
            "ffn_up.weight": (self.intermediate, self.hidden),
            "ffn_down.weight": (self.hidden, self.intermediate),
        }

    def _attention(self) -> dict[str, tuple[int, ...]]:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "attn_q.weight": (2 * queries, self.hidden),  # and the gates
            "attn_k.weight": (keys, self.hidden),
            "attn_v.weight": (keys, self.hidden),
            "attn_output.weight": (self.hidden, queries),
            "attn_q_norm.weight": (self.head_dim,),
            "attn_k_norm.weight": (self.head_dim,),
        }

    def _recurrent(self) -> dict[str, tuple[int, ...]]:
        width = self.linear_heads * self.linear_dim
        return {
            "attn_qkv.weight": (3 * width, self.hidden),
            "attn_gate.weight": (width, self.hidden),
            "ssm_conv1d.weight": (3 * width, self.kernel),
            "ssm_a": (self.linear_heads,),
            "ssm_dt.bias": (self.linear_heads,),
            "ssm_beta.weight": (self.linear_heads, self.hidden),
            "ssm_alpha.weight": (self.linear_heads, self.hidden),
            "ssm_norm.weight": (self.linear_dim,),
            "ssm_out.weight": (self.hidden, width),
        }


def random_tensor(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw a tensor as models have it before they are trained, so that no state grows, or is forgotten at once."""
    if name.endswith("norm.weight"):
        return np.ones(shape, np.float32)
    if name.endswith("ssm_a"):
        return -rng.uniform(1, 16, shape).astype(np.float32)
    if name.endswith("ssm_dt.bias"):  # of which softplus makes a step between these two
        step = np.exp(rng.uniform(np.log(1e-3), np.log(1e-1), shape))
        return np.log(np.expm1(step)).astype(np.float32)
    return np.float32(0.3 if "conv1d" in name else 0.02) * rng.standard_normal(shape, np.float32)


def write_random(path: Path, vocabulary: Path, kind: GGMLQuantizationType, sizes: Hybrid | None = None) -> None:
    """Write the model.

    Args:
        path: of the file.
        vocabulary: a GGUF file, whose tokenizer is copied.
        kind: the type of its matrices; vectors and convolutions are in float32.
        sizes: others than the published ones.
    """
    sizes = sizes or Hybrid()
    tokenizer = [field for name, field in GGUFReader(vocabulary).fields.items() if name.startswith("tokenizer.")]
    tokens = next(len(field.data) for field in tokenizer if field.name == gguf.Keys.Tokenizer.LIST)
    writer = GGUFWriter(path, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.QWEN35])
    _add_sizes(writer, sizes)
    for field in tokenizer:
        writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1] if field.types[1:] else None)
    rng = np.random.default_rng(0)
    for name, shape in sizes.shapes(tokens):
        stored = kind if len(shape) == 2 and "conv1d" not in name else GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(random_tensor(name, shape, rng), stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_sizes(writer: GGUFWriter, sizes: Hybrid) -> None:
    writer.add_type("model")
    writer.add_name("random weights")
    writer.add_context_length(sizes.context)
    writer.add_embedding_length(sizes.hidden)
    writer.add_block_count(sizes.layers)
    writer.add_feed_forward_length(sizes.intermediate)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_key_length(sizes.head_dim)
    writer.add_value_length(sizes.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e7)
    writer.add_rope_dimension_count(sizes.rotated)
    writer.add_rope_dimension_sections(SECTIONS)
    writer.add_ssm_conv_kernel(sizes.kernel)
    writer.add_ssm_state_size(sizes.linear_dim)
    writer.add_ssm_group_count(sizes.linear_heads)
    writer.add_ssm_time_step_rank(sizes.linear_heads)
    writer.add_ssm_inner_size(sizes.linear_heads * sizes.linear_dim)
    writer.add_full_attention_interval(sizes.attends_every)


@click.command(help=__doc__)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--vocabulary", type=click.Path(exists=True, path_type=Path), required=True, help="A GGUF file.")
@click.option("--type", "kind", type=click.Choice(list(TYPES)), default="Q8_0", show_default=True, help="Of matrices.")
def main(path: Path, vocabulary: Path, kind: str) -> None:
    """Write the model to PATH."""
    write_random(path, vocabulary, TYPES[kind])


if __name__ == "__main__":
    main()
