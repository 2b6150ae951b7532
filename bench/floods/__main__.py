"""A neighbour's stream beside floods: `python -m bench.floods [--seconds 5] [--clients 2] [--kind reset]`."""

from __future__ import annotations

import click
import trio

from bench.floods.beside import HEAD, Load, describe, measure, withstood
from bench.floods.kinds import FLOODS


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="Seconds of each flood.")
@click.option("--clients", default=2, show_default=True, help="Clients that flood, a connection of each at a time.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(FLOODS)), help="All by default.")
def main(seconds: float, clients: int, kinds: tuple[str, ...]) -> None:
    """Flood a server of its own by each kind, beside a stream, and print a table."""
    click.echo(HEAD)
    worse = []
    for kind in kinds or FLOODS:
        impact = trio.run(measure, kind, Load(seconds, clients))
        click.echo(describe(kind, impact))
        if not withstood(impact):
            worse.append(kind)
    click.echo(
        f"\nbelow half of its speed, with a gap above 100 ms, or busy for more than 2 s: {', '.join(worse) or 'none'}"
    )


if __name__ == "__main__":
    main()
