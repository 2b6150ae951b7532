"""The command line.

Torch is not imported before `main` has set what its OpenMP runtime reads once, at load.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

import click

from web.commands.doctor import doctor
from web.commands.kv import kv
from web.commands.serve import serve
from web.process.streams import open_closed_streams

# GNU OpenMP spins at its barriers, without end by default: with the event loop busy on one of two cores, a small
# product went from 0.5 ms to 8 ms, a scheduler tick.  Too short a spin lets threads fall asleep between products.
# Where another program always keeps a core busy, 1000 is better (bench/LOG.md).
GOMP_SPINCOUNT = "10000"

BENCH_LIBRARIES = ("httpx", "matplotlib", "psutil", "rich")  # the extra of that name


class Program(click.Group):
    """The whole of it, which also runs without standard streams."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        open_closed_streams()
        return super().main(*args, **kwargs)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cede")
def main() -> None:
    """Serve a language model, and give the accelerator back the moment nobody is listening."""
    os.environ.setdefault("GOMP_SPINCOUNT", GOMP_SPINCOUNT)
    # A prompt is encoded in the thread that asks for it: a pool would have a thread on every core beside the device's.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


main.add_command(serve)
main.add_command(kv)
main.add_command(doctor)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure servers side by side, over HTTP."""
    missing = [name for name in BENCH_LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(f"cede bench needs {', '.join(missing)}: pip install 'cede[bench]'")
    # Not an import statement: the harness stands above the server, and nothing of the server may lean on it.
    group: click.Group = importlib.import_module("bench.client.cli").bench
    group.main(arguments, prog_name="cede bench")
