"""`cede top`: what a server does, live."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from web.commands.client.target import open_target, run_to_end, running, server_flags

if TYPE_CHECKING:
    from pathlib import Path

    from web.commands.client.target import Target


@click.command(short_help="Show what a server does, live.")
@click.option("--once", is_flag=True, help="Write one picture as plain text, for pipes, and exit.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks at the server.",
)
@server_flags
def top(once: bool, interval: float, url: str, key: str | None, key_file: Path | None) -> None:
    """Show slots, queue, KV, steps and receipts of a server that runs.

    Up and down choose a request, `h` hangs it up, `q` leaves.  A server that goes away is waited for.
    """
    target = running(url, key, key_file)
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("this wants a terminal; --once writes plain text")
    run_to_end(partial(_top, target, None if once else interval), local=False)


async def _top(target: Target, interval: float | None) -> int:
    """Show it once, or at an interval; returns the exit status."""
    from web.commands.top.watch import show_once, watch

    async with open_target(target) as connection:
        return await show_once(connection) if interval is None else await watch(connection, interval)
