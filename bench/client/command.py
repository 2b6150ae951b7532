"""`cede bench` as `cede` finds it, by an entry point of the installed package; the harness is imported when it runs."""

from __future__ import annotations

from typing import Any

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> Any:  # noqa: ANN401  # click's
    """Measure servers side by side, over HTTP."""
    from bench.client import cli

    return cli.bench.main(arguments, prog_name="cede bench", standalone_mode=False)  # `cede` tells what goes wrong
