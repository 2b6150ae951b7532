"""`cede bench` as `cede` finds it, by an entry point of the installed package; the harness is imported when it runs."""

from __future__ import annotations

import importlib.util

import click

LIBRARIES = ("httpx", "matplotlib", "psutil", "rich")  # the extra `bench`, but for what only single scenarios need


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure servers side by side, over HTTP."""
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(f"cede bench needs {', '.join(missing)}: pip install 'cede[bench]'")
    from bench.client import cli

    cli.bench.main(arguments, prog_name="cede bench")
