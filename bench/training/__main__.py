"""``python -m bench.training`` makes ``runtime/embedded`` of the standard library's sources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import torch
from tokenizers import Tokenizer

from bench.corpus import load_corpus
from bench.training.card import measure_all, write_card
from bench.training.data import encode
from bench.training.distil import train_draft, train_mtp
from bench.training.export import export_model, export_mtp, export_target
from bench.training.loops import continuations, table
from bench.training.measure import load_exported
from bench.training.models import MtpModule, build_draft
from bench.training.teacher import Lessons, own_texts, prepare_lessons
from bench.training.tokenizer import train_tokenizer
from bench.training.train import Budget, TargetRun, load_trained
from bench.training.unlikelihood import UnlikelihoodRun

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM

EMBEDDED = Path(__file__).parents[2] / "runtime" / "embedded"


@dataclass
class Workshop:
    """A training run.

    Attributes:
        work: folder for what is kept between commands.
        output: folder for the exported models.
        device: PyTorch's name of the device.
        seed: of corpus, initialisation and order.
        dtype: of products.
    """

    work: Path
    output: Path
    device: str
    seed: int
    dtype: str

    def arithmetic(self) -> torch.autocast:
        """Return the context in which products are computed in `dtype`; weights and optimiser stay float32.

        It has no cache, which would go on serving the weights as they were before the first update.
        """
        return torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == "bfloat16", cache_enabled=False)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in the work folder, which is trained first if there is none."""
        file = self.work / "tokenizer.json"
        if not file.exists():
            train_tokenizer(load_corpus(self.seed)[0]).save(str(file))
        return Tokenizer.from_file(str(file))

    @cached_property
    def documents(self) -> tuple[list[list[int]], list[list[int]]]:
        """Token ids of all documents: training and held out."""
        training, held_out = load_corpus(self.seed)
        return encode(self.tokenizer, training), encode(self.tokenizer, held_out)

    def note(self, **figures: Any) -> None:  # noqa: ANN401 - anything JSON takes
        """Add to the figures for the model card."""
        file = self.work / "figures.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(known | figures, indent=2) + "\n")

    def trained_target(self) -> Qwen3ForCausalLM:
        """Load the target as it was last saved."""
        return load_trained(self.work / "target.pt", self.device)

    def lessons(self) -> Lessons:
        """Load the lessons."""
        tokens, hidden = torch.load(self.work / "lessons.pt", weights_only=True)
        return Lessons(tokens, hidden)

    def open_unlikelihood(self, weights: Path, budget: Budget) -> UnlikelihoodRun:
        """Begin or resume the training of a target against repetition."""
        file = self.work / "target.pt"
        return UnlikelihoodRun(weights, self.documents[0], self.tokenizer, budget, file, self.device, self.seed)

    def open_target(self, budget: Budget) -> TargetRun:
        """Begin or resume the training of the target."""
        return TargetRun(self.documents[0], budget, self.work / "target.pt", self.device, self.seed)


def pick_device(name: str) -> str:
    """Return the name of a device: `name`, or for `auto` the fastest one."""
    if name != "auto":
        return name
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


weights_option = click.option(
    "--from", "weights", type=click.Path(path_type=Path, exists=True), help="Exported weights to begin a run with."
)


@click.group()
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/embedded"), show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=EMBEDDED, help="Default: runtime/embedded")
@click.option("--device", default="auto", show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True)
@click.pass_context
def main(context: click.Context, work: Path, output: Path, device: str, threads: int, seed: int, dtype: str) -> None:
    """Train the embedded model: `target`, `unlikelihood`, `lessons`, `draft`, `mtp`, `card`, in this order."""
    torch.set_num_threads(threads)
    work.mkdir(parents=True, exist_ok=True)
    context.obj = Workshop(work, output, pick_device(device), seed, dtype)


@main.command()
@click.option("--minutes", default=50.0, show_default=True)
@click.option("--steps", type=int, help="Instead of minutes; makes the run repeatable.")
@click.option("--until", default=1.0, help="Stop at this share of the budget; the next call goes on from there.")
@weights_option
@click.option("--compile", "compiled", is_flag=True)
@click.pass_obj
def target(
    shop: Workshop, minutes: float, steps: int | None, until: float, weights: Path | None, compiled: bool
) -> None:
    """Train (or go on training) the target and export it."""
    run = shop.open_target(Budget(steps, minutes))
    if weights is not None and not run.has_begun:
        run.begin_with(weights)
    with shop.arithmetic():
        run.run(shop.documents[1], until, compiled)
    shop.note(target_tokens=run.tokens, target_steps=run.budget.step, target_minutes=run.budget.seconds / 60)
    export_target(run.model, shop.tokenizer, run.tokens, shop.output / "target")


@main.command()
@click.option("--minutes", default=30.0, show_default=True)
@click.option("--steps", type=int, help="Instead of minutes; makes the run repeatable.")
@click.option("--until", default=1.0, help="Stop at this share of the budget; the next call goes on from there.")
@weights_option
@click.option("--compile", "compiled", is_flag=True)
@click.pass_obj
def unlikelihood(
    shop: Workshop, minutes: float, steps: int | None, until: float, weights: Path | None, compiled: bool
) -> None:
    """Train the target that was exported (or go on training it) against repetition, and export it."""
    run = shop.open_unlikelihood(weights or shop.output / "target" / "model.safetensors", Budget(steps, minutes))
    with shop.arithmetic():
        run.run(shop.documents[1], until, compiled)
    shop.note(target_tokens=run.tokens)
    shop.note(unlikelihood_steps=run.budget.step, unlikelihood_minutes=run.budget.seconds / 60)
    export_target(run.model, shop.tokenizer, run.tokens, shop.output / "target")


@main.command()
@click.option("--texts", default=0, show_default=True, help="Show so many of each kind.")
@click.pass_obj
def loops(shop: Workshop, texts: int) -> None:
    """Measure how soon the exported target's greedy text repeats itself."""
    found = continuations(load_exported(shop.output / "target"), shop.documents[1], shop.tokenizer)
    print(table(found))
    for kind, judged in found.items():
        for text in judged[:texts]:
            print(f"\n--- {kind}: {text.tokens} tokens, loop from line {text.loop_line}\n{text.text}")


@main.command()
@click.pass_obj
def placeholders(shop: Workshop) -> None:
    """Export the target as it is, with an untrained draft and MTP module, which have the right shapes."""
    run = shop.open_target(Budget(None, 1.0))
    export_target(run.model, shop.tokenizer, run.tokens, shop.output / "target")
    export_model(build_draft(), shop.output / "draft")
    export_mtp(MtpModule(run.model.config), shop.output / "target")


@main.command()
@click.option("--writing-minutes", default=4.0, show_default=True, help="For the target's own texts.")
@click.option("--tokens", default=800_000, show_default=True, help="Lessons in all, own texts and corpus.")
@click.pass_obj
def lessons(shop: Workshop, writing_minutes: float, tokens: int) -> None:
    """Let the target write texts, and save its hidden states, from which `draft` and `mtp` learn."""
    model = shop.trained_target()
    texts = own_texts(model, shop.documents[0], shop.tokenizer, 60 * writing_minutes, shop.seed)
    prepared = prepare_lessons(model, texts, shop.documents[0], tokens, shop.seed)
    shop.note(own_tokens=sum(map(len, texts)), lesson_tokens=prepared.hidden.shape[0] * prepared.hidden.shape[1])
    torch.save((prepared.tokens, prepared.hidden), shop.work / "lessons.pt")


@main.command()
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--compile", "compiled", is_flag=True)
@weights_option
@click.pass_obj
def draft(shop: Workshop, minutes: float, compiled: bool, weights: Path | None) -> None:
    """Distil the draft and export it."""
    teacher = shop.trained_target()
    with shop.arithmetic():
        model, seen = train_draft(teacher, shop.lessons(), minutes, shop.device, shop.seed, compiled, weights)
    shop.note(draft_tokens=seen, draft_minutes=minutes)
    export_model(model, shop.output / "draft")


@main.command()
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--compile", "compiled", is_flag=True)
@weights_option
@click.pass_obj
def mtp(shop: Workshop, minutes: float, compiled: bool, weights: Path | None) -> None:
    """Train the MTP module over the frozen target and export it."""
    teacher = shop.trained_target()
    with shop.arithmetic():
        module, seen = train_mtp(teacher, shop.lessons(), minutes, shop.device, shop.seed, compiled, weights)
    shop.note(mtp_tokens=seen, mtp_minutes=minutes)
    export_mtp(module, shop.output / "target")


@main.command()
@click.option("--hardware", default="", help="One line for the card: what it was trained on, and when.")
@click.pass_obj
def card(shop: Workshop, hardware: str) -> None:
    """Measure the exported files and write the model card."""
    if hardware:
        shop.note(hardware=hardware)
    shop.note(**measure_all(shop.output, shop.tokenizer, shop.documents[1], shop.seed))
    figures = json.loads((shop.work / "figures.json").read_text())
    write_card(figures, shop.output)


if __name__ == "__main__":
    main()
