"""`cede rm`: removes a model that was downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runtime.common.units import format_size
from web.commands.completion import complete_held
from web.commands.options.flags import SectionedCommand, option_flags
from web.process.failures import said_in_a_line

if TYPE_CHECKING:
    from pathlib import Path


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
