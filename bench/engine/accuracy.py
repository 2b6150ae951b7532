"""The accuracy of a form of the weights: its distance from the float32 model over held-out text.

    python -m bench.engine.accuracy [--model NAME] [--form int8 --form int4 --form bfloat16] [--dtype float32]
                                    [--text prose] [--llama-server http://127.0.0.1:8081]

The text is Python, the embedded model's own domain, or English prose, the reference manual that comes with Python.  At
each position the whole distribution of the next token is compared: by the KL divergence of the form's from the full
model's, in nats; by whether both find the same token likeliest; and by the difference of the cross-entropies.  The full
model has all weights in float32, those expanded that the files hold in few bits.

A server of llama.cpp with the same model can be asked at the same positions.  It tells the likeliest tokens only, so
then the divergences of all forms over these are printed, too (`bench.engine.llama_server`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from pydoc_data.topics import topics
from typing import TYPE_CHECKING

import click
import httpx
import torch
import torch.nn.functional as F

from bench.corpus import held_out_files
from bench.engine.llama_server import TopTokens, ask_top_tokens
from runtime.checkpoint.open import open_checkpoint
from runtime.kv.pages import in_one_piece
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.nn.matrices.quantization import Quantization
from runtime.step.step import Segment
from runtime.store.resolve import resolve_model
from runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from runtime.nn.model import Transformer

FULL = "float32"
QUANTIZED = [quantization.value for quantization in Quantization if quantization is not Quantization.NONE]
FORMS = ("bfloat16", *QUANTIZED)
CODE, PROSE = "code", "prose"


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance of a model from the full one, position by position: `[rows]`.

    Attributes:
        divergence: KL from the full model, in nats.
        agreed: whether both find the same token likeliest.
        added: cross-entropy less that of the full model, in nats.
        listed: KL over the tokens that a server listed, all others taken together; None for no server.
    """

    divergence: Tensor
    agreed: Tensor
    added: Tensor
    listed: Tensor | None = None

    def __str__(self) -> str:
        """Return the figures on one line."""
        return (
            f"KL mean {self.divergence.mean():.5f}, 99th percentile {self.divergence.quantile(0.99):.5f} nats; "
            f"same first token {100 * self.agreed.float().mean():.2f} %; cross-entropy {self.added.mean():+.5f}"
            + ("" if self.listed is None else f"; KL over the server's tokens {self.listed.mean():.5f} nats")
        )


def distance(full: Tensor, other: Tensor, following: Tensor) -> Distance:
    """Compare the scores of two models.

    Args:
        full: scores of the full model `[rows, vocab]`.
        other: scores of the other one.
        following: the tokens that come next `[rows]`.
    """
    expected, found = full.log_softmax(-1), other.log_softmax(-1)
    at = following[:, None]
    return Distance(
        F.kl_div(found, expected, reduction="none", log_target=True).sum(-1),
        full.argmax(-1) == other.argmax(-1),
        (expected.gather(-1, at) - found.gather(-1, at))[:, 0],
    )


def scores(model: Transformer, token_ids: Sequence[int]) -> Tensor:
    """Return the scores of what follows each token, in float32 on the host: `[tokens, vocab]`."""
    batch = model.begin([Segment(0, 0, token_ids, pages=in_one_piece(len(token_ids)))])
    for layer in range(model.num_layers):
        model.run_layer(batch, layer)
    return model.compute_logits(model.weights.final_norm(batch.hidden)).cpu()


def compare(
    full: Transformer, other: Transformer, texts: Sequence[Sequence[int]], tops: Sequence[TopTokens] = ()
) -> Distance:
    """Compare two models at all positions of all texts but the last of each, which has no next token.

    Args:
        full: the exact one.
        other: the one that is measured.
        texts: token ids.
        tops: what a server found likeliest at the same positions, for each text; none for no server.
    """
    parts = []
    for text, top in zip_longest(texts, tops):
        expected, found = scores(full, text)[:-1], scores(other, text)[:-1]
        part = distance(expected, found, torch.tensor(text[1:]))
        parts.append(part if top is None else replace(part, listed=top.divergence_of(expected, found)))
    names = ("divergence", "agreed", "added", "listed") if tops else ("divergence", "agreed", "added")
    return Distance(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def open_form(folder: Path, form: str, dtype: str, context: int) -> Transformer:
    """Load the model in `folder`: quantised and computing in `dtype`, or full and of the dtype that `form` names."""
    options = LoadOptions(folder, slots=1, context=context, dtype=form, quantize=Quantization.NONE)
    if form in QUANTIZED:
        options = replace(options, dtype=dtype, quantize=Quantization(form))
    return load_model(options, describe_model(options, "bench")[1])


def held_out(folder: Path, count: int, tokens: int, text: str = CODE) -> list[list[int]]:
    """Return the first `tokens` tokens of `count` texts, which the embedded model has not learnt from."""
    tokenizer = Tokenizer.load(open_checkpoint(folder))
    texts = held_out_files() if text == CODE else [topics[name] for name in sorted(topics)]
    encoded = (tokenizer.encode(text[: 8 * tokens]) for text in texts)
    return [ids[:tokens] for ids in encoded if len(ids) >= tokens][:count]


def ask_server(url: str, texts: Sequence[Sequence[int]], top: int) -> list[TopTokens]:
    """Ask a server of llama.cpp for the likeliest tokens at the same positions, text by text."""
    with httpx.Client(base_url=url) as client:
        return [ask_top_tokens(client, text[:-1], top) for text in texts]


def server_line(full: Transformer, texts: Sequence[Sequence[int]], tops: Sequence[TopTokens]) -> str:
    """Return the server's distance from a model, as far as its answers tell, on one line."""
    divergences, agreed = [], []
    for text, top in zip(texts, tops, strict=True):
        expected = scores(full, text)[:-1]
        divergences.append(top.divergence(expected))
        agreed.append(expected.argmax(-1) == top.ids[:, 0])
    return (
        f"KL over its {tops[0].ids.shape[1]} tokens {torch.cat(divergences).mean():.5f} nats; "
        f"same first token {100 * torch.cat(agreed).float().mean():.2f} %"
    )


@click.command(help=__doc__)
@click.option("--model", help="Whatever `cede serve --model` takes; the embedded model by default.")
@click.option("--form", "forms", multiple=True, default=FORMS, type=click.Choice(FORMS))
@click.option("--dtype", default=FULL, show_default=True, help="What quantised forms compute in.")
@click.option("--text", default=CODE, show_default=True, type=click.Choice([CODE, PROSE]))
@click.option("--pieces", "count", default=8, show_default=True, help="Number of texts.")
@click.option("--tokens", default=512, show_default=True, help="Of each text.")
@click.option("--llama-server", "url", help="URL of a llama-server with the same model.")
@click.option("--top", default=200, show_default=True, help="Likeliest tokens that it is asked for.")
def main(
    model: str | None, forms: Sequence[str], dtype: str, text: str, count: int, tokens: int, url: str | None, top: int
) -> None:
    """Print the distances of each form."""
    folder = resolve_model(model)
    texts = held_out(folder, count, tokens, text)
    tops = [] if url is None else ask_server(url, texts, top)
    with torch.inference_mode():
        full = open_form(folder, FULL, FULL, tokens)
        if tops:
            print(f"{'server':8} {server_line(full, texts, tops)}", flush=True)
        for form in forms:
            other = open_form(folder, form, dtype, tokens)
            print(f"{form:8} {compare(full, other, texts, tops)}; {other.weights.nbytes / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
