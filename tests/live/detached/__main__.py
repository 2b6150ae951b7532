"""Cut as many streams and kill as many clients as wanted: `python -m tests.live.detached --streams 100 --kills 50`."""

from __future__ import annotations

import click

from tests.live.detached.cutting import FLAGS, run
from tests.live.server import Server


@click.command()
@click.option("--streams", type=int, default=100, show_default=True, help="Cut by each of three ways.")
@click.option("--kills", type=int, default=50, show_default=True, help="Of client processes, by SIGKILL.")
def main(streams: int, kills: int) -> None:
    """Do it to a server of its own, and say what came of it."""
    with Server(*FLAGS) as server:
        outcome = run(server, streams, kills)
        click.echo(outcome)
        for wrong in outcome.wrong:
            click.echo(wrong)
    raise SystemExit(bool(outcome.wrong))


if __name__ == "__main__":
    main()
