"""A real server, a real model, real sockets, and clients that hang up whenever they like.

    python -m tests.soak --seconds 300 --clients 200 [--http1 | --http2] [--seed N] [--model FOLDER | --hybrid]

The model is the default one, that of a folder, whose tokens 300 to 2999 are plain ones, or a small random hybrid.

Among them are a few that only listen: their greedy outputs must be those of solo runs, which were decoded token by
token on an idle server.  At the end nothing may be left: no task, slot, socket, file descriptor, thread or memory; and
what the receipts and the statistics say must agree with one another and with what the clients saw.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click
import trio

from tests.live.server import Gone, Json, Server
from tests.models.checkpoints import FAMILIES
from tests.soak.clients import Exchange, Http2, fetch, open_http1, open_http2
from tests.soak.record import Figures, Record
from tests.soak.visits import STALL_TIMEOUT, Behaviour, Scene, Visit, choose, fill, run_alone

SLOTS = 4
FLAGS = [  # prompts in small chunks and drafts in every round, so that many hang-ups come in the middle of either
    *("--dtype", "float32", "--slots", str(SLOTS), "--queue", "4000", "--chunk-tokens", "64", "--draft-tokens", "3"),
    *("--kv-ram", "32MiB", "--kv-audit", "0.05"),
    *("--stall-timeout", f"{STALL_TIMEOUT:g}", "--log-level", "warning", "--watch-loop", "20"),
]
LISTENERS = 12  # one client of so many
PATIENCE = 600.0  # seconds; only what hangs takes so long, however long the queue
IMPATIENCE = 4.0  # seconds, on average, of those who do not wait for what they meant to do
IMPATIENT = 0.8  # their share
SLAMS = 0.2  # share of the HTTP/2 connections that are reset whole
MEMORY_BOUND = 64 * 2**20  # bytes of resident memory that a server may have gained since a minute's warm-up


class Soak:
    """All clients of one server.

    Args:
        scene: what they share.
        protocols: which of http1 and http2 they speak.
        seed: of everything that a client decides.
    """

    def __init__(self, scene: Scene, protocols: Sequence[str], seed: int) -> None:
        self._scene = scene
        self._protocols = protocols
        self._seed = seed
        self._round = 0
        self._over = 0.0  # on Trio's clock

    async def run(self, clients: int, seconds: float) -> None:
        """Let so many clients come and go for so long; returns when each has ended its last request."""
        self._round += 1
        self._over = trio.current_time() + seconds
        async with trio.open_nursery() as audit:
            audit.start_soon(self._audit)
            async with trio.open_nursery() as nursery:
                for number in range(clients):
                    nursery.start_soon(self._client, number)
            audit.cancel_scope.cancel()
        await self._note_receipts()

    @property
    def _is_over(self) -> bool:
        return trio.current_time() >= self._over

    async def _client(self, number: int) -> None:
        dice = random.Random(f"{self._seed}/{self._round}/{number}")
        listens = number % LISTENERS == 0
        protocol = self._protocols[number // LISTENERS % len(self._protocols)]
        come = self._by_http1 if protocol == "http1" else self._by_http2
        await trio.sleep(dice.uniform(0, 1))
        await come(dice, listens)  # also where that sleep has taken long
        while not self._is_over:
            await come(dice, listens)

    async def _by_http1(self, dice: Random, listens: bool) -> None:
        """A few requests, each on a connection of its own."""
        tail: list[int] | None = None
        for _ in range(dice.randint(1, 3)):
            behaviour = Visit.listen if listens else choose(dice)
            receive_buffer = 4096 if behaviour is Visit.stall else 0
            async with open_http1(self._scene.address, receive_buffer) as exchange:
                tail = await self._visit(exchange, behaviour, dice, tail)
            if self._is_over:
                return

    async def _by_http2(self, dice: Random, listens: bool) -> None:
        """Several requests at a time on one connection, which may be reset under all of them."""
        slams = not listens and dice.random() < SLAMS
        met: set[Behaviour] = set()
        async with open_http2(self._scene.address) as connection, trio.open_nursery() as nursery:

            def may_be_cut() -> bool:
                # A stream that nobody reads uses the connection's window up, and others on it get nothing, either.
                return slams or Visit.stall in met

            async def visits() -> None:
                tail: list[int] | None = None
                for _ in range(dice.randint(1, 3)):
                    behaviour = Visit.listen if listens else choose(dice)
                    met.add(behaviour)
                    tail = await self._visit(Http2(connection), behaviour, dice, tail, may_be_cut=may_be_cut)
                    if connection.ended or self._is_over:
                        return

            for _ in range(dice.randint(1, 3)):
                nursery.start_soon(visits)
            if slams:
                await trio.sleep(dice.uniform(0, 2))
                await connection.slam()

    async def _visit(
        self,
        exchange: Exchange,
        behaviour: Behaviour,
        dice: Random,
        tail: list[int] | None,
        *,
        may_be_cut: Callable[[], bool] = lambda: False,
    ) -> list[int]:
        """One request from its first byte to its last; a prompt for the next one."""
        visit = Visit(self._scene, exchange, dice, tail)
        impatient = behaviour is not Visit.listen and dice.random() < IMPATIENT
        try:
            with trio.move_on_after(dice.expovariate(1 / IMPATIENCE) if impatient else PATIENCE) as patience:
                outcome = await behaviour(visit)
            if patience.cancelled_caught:
                assert impatient, f"{behaviour.__name__} has taken {PATIENCE:g} s"
                outcome = visit.leave()
        except Gone as gone:
            if not (may_be_cut() or behaviour is Visit.stall):
                raise AssertionError(f"the server has cut {behaviour.__name__}") from gone
            visit.leave()
            outcome = "cut"
        if may_be_cut():
            visit.may_have_stalled()
        with suppress(Gone):
            await exchange.leave(rudely=outcome == "left" and dice.random() < 0.5)
        self._scene.record.visits[behaviour.__name__, outcome] += 1
        self._scene.record.tokens += len(visit.events.tokens)
        return visit.tail

    async def _audit(self) -> None:
        """Read the receipts before the log that holds them is full."""
        while True:
            await trio.sleep(1)
            await self._note_receipts()

    async def _note_receipts(self) -> None:
        _, answer = await fetch(self._scene.address, "/v1/receipts?limit=1024")
        self._scene.record.note_receipts(answer["data"])


@dataclass(frozen=True, slots=True)
class Report:
    """Findings of a soak; `before` it and `after` it the server was idle."""

    record: Record
    statistics: Json
    before: Figures
    after: Figures
    log: str  # the server's

    def __str__(self) -> str:
        """Say what happened, and what the server held before and after."""
        return f"{self.record.summary(self.statistics)}\nbefore: {self.before}\nafter:  {self.after}"

    def check(self, memory_bound: int = MEMORY_BOUND) -> None:
        """Raise AssertionError if something does not add up, or the server has grown by so many bytes."""
        self.record.check(self.statistics)
        assert self.after.memory <= self.before.memory + memory_bound, self
        assert "ERROR" not in self.log, self.log[-4000:]
        assert "Traceback" not in self.log, self.log[-4000:]


def soak(server: Server, *, protocols: Sequence[str], clients: int, seconds: float, seed: int) -> Report:
    """Soak a fresh server for `seconds`, after a fifth as long of warming up.

    Raises:
        AssertionError: an output was not exact, a request was lost, or something is not given back.
    """
    fill(server, SLOTS)
    scene = Scene(server.address, run_alone(server))
    visitors = Soak(scene, protocols, seed)
    trio.run(visitors.run, clients, seconds / 5)
    server.wait_idle()
    before = Figures.of(server)
    trio.run(visitors.run, clients, seconds)
    server.wait_idle()
    scene.record.note_receipts(server.get("/v1/receipts?limit=1024")["data"])  # those of the last to leave
    after = Figures.once_back_at(before, server)
    return Report(scene.record, server.get("/v1/statistics"), before, after, server.log())


def write_hybrid(folder: Path) -> Path:
    """Write a small random hybrid that has all the tokens of the visits; return where it lies."""
    FAMILIES["lfm2"](folder / "hybrid", vocab_size=3072, max_position_embeddings=4096)
    return folder / "hybrid"


def flags_of(model: Path | None, folder: Path) -> list[str]:
    """Return flags by which that model, or the default one, is served."""
    named = [] if model is None else ["--model", str(model)]
    return [*named, "--kv-dir", str(folder / "kv"), "--kv-disk", "64MiB"]


@click.command()
@click.option("--seconds", type=float, default=300.0, show_default=True)
@click.option("--clients", type=int, default=200, show_default=True, help="How many there are at a time.")
@click.option("--http1", is_flag=True, help="HTTP/1.1 alone.")
@click.option("--http2", is_flag=True, help="HTTP/2 alone.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--model", type=click.Path(exists=True, path_type=Path), help="Its folder, in place of the default one.")
@click.option("--hybrid", is_flag=True, help="A small random hybrid, in place of the default model.")
def main(seconds: float, clients: int, http1: bool, http2: bool, seed: int, model: Path | None, hybrid: bool) -> None:
    """Soak a server of its own, and say what it took."""
    protocols = [name for name, wanted in (("http1", http1), ("http2", http2)) if wanted] or ["http1", "http2"]
    with tempfile.TemporaryDirectory() as folder:
        if hybrid:
            model = write_hybrid(Path(folder))
        with Server(*FLAGS, *flags_of(model, Path(folder))) as server:
            try:
                report = soak(server, protocols=protocols, clients=clients, seconds=seconds, seed=seed)
                click.echo(report)
                report.check()
            except BaseException:
                click.echo(f"the server's log ends:\n{server.log()[-8000:]}", err=True)
                raise


if __name__ == "__main__":
    main()
