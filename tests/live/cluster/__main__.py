"""Try what is promised at the front door: `python -m tests.live.cluster closes --closes 1000`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import click
import trio

from tests.live.cluster import wire as wires
from tests.live.cluster.etcd import etcd
from tests.live.cluster.parts import Parts
from tests.live.cluster.proofs import closes as closing
from tests.live.cluster.proofs import ends as ending
from tests.live.cluster.proofs import hangups as hanging_up
from tests.live.cluster.proofs import kills as killing
from tests.live.cluster.proofs import outages
from tests.live.cluster.proofs import retries as retrying
from tests.live.cluster.proofs import seeds as seeding

seed = click.option("--seed", type=int, default=0, show_default=True)
workers = click.option("--workers", type=int, default=3, show_default=True)


class Report(Protocol):
    """Result of a proof."""

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""


@contextmanager
def parts(*flags: str, workers: int, door: tuple[str, ...] = ()) -> Iterator[Parts]:
    """A cluster in a folder of its own."""
    with TemporaryDirectory() as folder, Parts(Path(folder), *flags, workers=workers, door=door) as running:
        yield running


def tell(report: Report) -> None:
    """Print it, and fail if a promise was broken."""
    click.echo(report)
    report.check()


@click.group()
def main() -> None:
    """Try what is promised at the front door."""


@main.command()
@click.option("--closes", type=int, default=100, show_default=True)
@workers
@seed
def closes(closes: int, workers: int, seed: int) -> None:
    """Clients that hang up, in every phase."""
    with parts(*closing.FLAGS, workers=workers) as running:
        tell(trio.run(partial(closing.close_many, running, closes, seed=seed)))


@main.command()
@click.option("--closes", type=int, default=1000, show_default=True)
@click.option("--rate", type=float, default=100.0, show_default=True, help="Closes a second.")
@workers
@seed
def storm(closes: int, rate: float, workers: int, seed: int) -> None:
    """Many clients at a time that hang up soon."""
    with parts(*closing.FLAGS, workers=workers) as running:
        tell(trio.run(partial(closing.storm, running, closes, seed=seed, rate=rate)))


@main.command()
@click.option("--minutes", type=float, default=30.0, show_default=True)
@click.option("--clusters", type=int, default=2, show_default=True)
@click.option("--clients", type=int, default=6, show_default=True, help="Of each cluster, at a time.")
@click.option("--rate", type=float, default=16.0, show_default=True, help="Hang-ups a second at most, of all.")
@workers
@seed
def hangups(minutes: float, clusters: int, clients: int, rate: float, workers: int, seed: int) -> None:
    """Hang-ups for long, on several clusters at once; then SIGTERM."""
    tell(hanging_up.run(workers, clusters, minutes, seed, clients, rate))


@main.command()
def ends() -> None:
    """SIGTERM to each part, in each state that holds one up."""
    tell(ending.walk())


@main.command()
@click.option("--kills", type=int, default=10, show_default=True)
@workers
@seed
def kills(kills: int, workers: int, seed: int) -> None:
    """Workers that are killed under load."""
    with parts(*killing.FLAGS, workers=workers) as running:
        tell(trio.run(partial(killing.kill_many, running, kills, seed=seed)))


@main.command()
@workers
def roll(workers: int) -> None:
    """A rolling restart of all workers under load."""
    with parts(*outages.FLAGS, workers=workers) as running:
        tell(trio.run(outages.roll, running))


@main.command()
@workers
def freeze(workers: int) -> None:
    """A worker that is frozen under load, and goes on once it has left discovery."""
    with parts(*outages.FLAGS, workers=workers) as running:
        tell(trio.run(outages.freeze, running))


@main.command()
@click.option("--times", type=int, default=3, show_default=True)
@workers
def door(times: int, workers: int) -> None:
    """A front door that is killed under load."""
    with parts(*outages.FLAGS, workers=workers) as running:
        tell(trio.run(outages.kill_door, running, times))


@main.command()
@click.option("--seconds", type=float, default=60.0, show_default=True)
@workers
def discovery(seconds: float, workers: int) -> None:
    """An etcd that answers nobody for a while, under load."""
    with TemporaryDirectory() as name, etcd(Path(name)) as store:
        folder, flags = Path(name), ("--discovery", "etcd")
        with Parts(folder, *outages.FLAGS, workers=workers, discovery=flags, environment=store.environment) as running:
            tell(trio.run(outages.lose_discovery, running, seconds, store.frozen()))


@main.command()
@click.option("--cases", type=int, default=100, show_default=True, help="Hang-ups.")
@click.option("--load", type=float, default=0.7, show_default=True, help="Share of what the cluster can do.")
@workers
@seed
def retries(cases: int, load: float, workers: int, seed: int) -> None:
    """Retry after a hang-up, in the session of the first attempt; and, as controls, without one.

    Without a session the router weighs KV against load: what is worth little is left for a worker that is less busy.
    """
    controls = max(1, cases // 4)
    for router, sessions, few in (("round-robin", False, controls), ("kv", False, controls), ("kv", True, cases)):
        with parts(*retrying.FLAGS, workers=workers, door=("--router", router)) as running:
            run = partial(retrying.retry_many, running, few, load=load, seed=seed, router=router, sessions=sessions)
            report = trio.run(run)
            tell(report)
    assert report.found >= retrying.ENOUGH, report


@main.command()
def seeds() -> None:
    """The five failures of other servers that cede exists to make impossible."""
    for each in seeding.SEEDS:
        click.echo(each())


@main.command()
def wire() -> None:
    """Count what passes between the processes, in bytes."""
    with parts(*wires.FLAGS, workers=2) as running:
        click.echo("\n".join(wires.count(running)))


if __name__ == "__main__":
    main()
