"""Harass a server: `python -m tests.live.hostile --requests 10000 --seed 5`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.live.fork_server import ForkedServer
from tests.live.hostile.harass import FLAGS, SIZE, harass, replay


@click.command()
@click.option("--requests", type=int, default=200, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--size", type=int, default=SIZE, show_default=True, help="Bytes of each large body.")
@click.option("--replay", "what", help="Send one request again, by its name in a message, such as 'body 17'.")
def main(requests: int, seed: int, size: int, what: str | None) -> None:
    """Harass a server of its own, and say what it took."""
    with TemporaryDirectory() as folder, ForkedServer(Path(folder), *FLAGS) as server:
        if what is not None:
            found = replay(server, what)
            click.echo("\n".join([*map(str, found.answers.items()), *found.faults, server.log()]))
            return
        report = harass(server, requests=requests, seed=seed, size=size)
        click.echo(report)
        report.check()


if __name__ == "__main__":
    main()
