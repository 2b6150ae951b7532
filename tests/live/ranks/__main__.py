"""Try what is promised of several ranks: `python -m tests.live.ranks cancels --cancels 10000`."""

from __future__ import annotations

from functools import partial

import click
import trio

from tests.live.ranks import deaths as dying
from tests.live.ranks.cancels import cancel_many


@click.group()
def main() -> None:
    """Try what is promised of several ranks."""


@main.command()
@click.option("--cancels", type=int, default=1000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def cancels(cancels: int, seed: int) -> None:
    """Cancel segments of steps that two processes compute."""
    report = trio.run(partial(cancel_many, cancels, seed=seed))
    click.echo(report)
    report.check()


@main.command()
@click.option("--times", type=int, default=5, show_default=True)
def deaths(times: int) -> None:
    """Kill a rank of a server that generates."""
    report = dying.kill_many(times)
    click.echo(report)
    report.check()


if __name__ == "__main__":
    main()
