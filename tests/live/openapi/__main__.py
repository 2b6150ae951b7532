"""Draw as many requests as wanted: `python -m tests.live.openapi --examples 500`."""

from __future__ import annotations

import click

from tests.live.openapi.drawn import FLAGS, ask, check
from tests.live.server import Server


@click.command()
@click.option("--examples", type=int, default=100, show_default=True, help="Of each operation and kind.")
def main(examples: int) -> None:
    """Ask a server of its own, and say what it answered."""
    with Server(*FLAGS) as server:
        outcome = ask(server, examples)
        click.echo(outcome)
        check(server, outcome)


if __name__ == "__main__":
    main()
