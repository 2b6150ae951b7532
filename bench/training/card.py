"""Measures the exported folders and writes the model card."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file

from bench.training.loops import continuations, table
from bench.training.measure import (
    acceptance,
    agreement,
    draft_proposer,
    held_out_texts,
    load_exported,
    load_mtp,
    losses,
    mtp_proposer,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEMPLATE = Path(__file__).with_name("card.md")


def parameters(file: Path) -> int:
    """Return the number of parameters in a safetensors file."""
    return sum(tensor.numel() for tensor in load_file(file).values())


def measure_all(output: Path, tokenizer: Tokenizer, held_out: list[list[int]], seed: int) -> dict[str, Any]:
    """Return every figure of the card that is measured on the exported files."""
    target, draft = load_exported(output / "target"), load_exported(output / "draft")
    figures: dict[str, Any] = {f"held_out_{name}": value for name, value in losses(target, tokenizer, seed).items()}
    figures["draft_held_out_nats_per_token"] = losses(draft, tokenizer, seed)["nats_per_token"]
    figures["greedy_table"] = table(continuations(target, held_out, tokenizer))
    texts = held_out_texts(target, held_out, tokenizer)
    figures["judged_tokens"] = sum(len(text) - start for start, text in texts)
    module = load_mtp(target, output / "target")
    for name, propose in (("draft", draft_proposer(draft)), ("mtp", mtp_proposer(target, module))):
        result = acceptance(propose, texts)
        figures[f"{name}_accepted"] = result.share
        figures[f"{name}_tokens_per_step"] = 1 + result.accepted / result.blocks
        figures[f"{name}_first"] = result.first_share
        figures[f"{name}_agreement"] = agreement(propose, texts)
    for name, file in (("target", "target/model"), ("draft", "draft/model"), ("mtp", "target/mtp")):
        figures[f"{name}_parameters"] = parameters(output / f"{file}.safetensors")
    figures["python"] = ".".join(map(str, sys.version_info[:3]))
    return figures


def write_card(figures: dict[str, Any], output: Path) -> None:
    """Write the card.  Raises KeyError if a figure of the template is missing."""
    (output / "target" / "README.md").write_text(TEMPLATE.read_text().format(**figures))
