"""`cede models`: which models are here, and which can be had by a short name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from runtime.common.log_text import printable
from runtime.common.units import format_size
from runtime.errors import CedeError
from web.commands.options.flags import SectionedCommand, option_flags

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Record = dict[str, "str | int | None"]

_HERE = ("name", "size", "family", "quantisation", "context", "fits", "states", "place")
_KNOWN = ("name", "size", "licence", "source", "summary")


@click.command(cls=SectionedCommand, short_help="List the models that are here, or can be had.")
@click.option("--known", is_flag=True, help="List the short names instead, here or not.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, a list of objects.")
@option_flags("models-dir")
def models(known: bool, as_json: bool, models_dir: Path | None) -> None:
    """List the models that are here: the embedded one, those in cede's folder and those in the hub's cache.

    One that cannot be served is listed with the reason.
    """
    try:
        records = _known() if known else _here(models_dir)
    except CedeError as error:
        raise click.ClickException(str(error)) from None
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
    from web.commands.models.description import describe

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
