"""The tasks of `cede top`: one asks the server, one reads keys."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from typing import TYPE_CHECKING

import trio
from rich.console import Console
from rich.live import Live

from runtime.errors import CedeError
from web.commands.client.interruption import interrupted_by
from web.commands.client.terminal import quiet_keys
from web.commands.top.overview import Overview
from web.commands.top.sample import take_sample
from web.commands.top.screen import draw

if TYPE_CHECKING:
    from web.commands.client.connection import Connection

_SEQUENCE = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|[\x00-\x7f]")
_NAMES = {b"\x1b[A": "up", b"\x1bOA": "up", b"k": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"j": "down"}
_NAMES |= {b"h": "hang up", b"q": "quit", b"Q": "quit"}


def pressed(data: bytes) -> list[str]:
    """The keys that mean something, of those that these bytes stand for."""
    return [_NAMES[found] for found in _SEQUENCE.findall(data) if found in _NAMES]


STDIN = 0
PLAIN_COLUMNS = 160  # of text that goes into a pipe
BETWEEN_SAMPLES = 0.5  # seconds, from which speeds are computed where there is only one picture


async def show_once(connection: Connection) -> int:
    """Write one picture as plain text.  Raises CedeError."""
    overview = Overview()
    overview.take(await take_sample(connection, trio.current_time(), time.time()))
    await trio.sleep(BETWEEN_SAMPLES)
    overview.take(await take_sample(connection, trio.current_time(), time.time()))
    width = None if sys.stdout.isatty() else PLAIN_COLUMNS
    console = Console(color_system=None, force_terminal=False, width=width, highlight=False)
    with console.capture() as captured:
        console.print(draw(overview, connection.url, keys=False))
    sys.stdout.write("\n".join(line.rstrip() for line in captured.get().rstrip().split("\n")) + "\n")
    return 0


async def watch(connection: Connection, interval: float) -> int:
    """Show what the server does until the person leaves; returns the exit status."""
    async with interrupted_by(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as interruption:
        screen = Live(screen=True, auto_refresh=False, console=Console(highlight=False))
        with quiet_keys(STDIN, signals=True), screen as live:
            await Viewer(connection, interval, live).run()
    return 0 if interruption.number in (None, signal.SIGINT) else 128 + interruption.number


class Viewer:
    """The screen, and who changes it.

    Args:
        connection: to the server.
        interval: seconds between two samples.
        live: to draw on.
    """

    def __init__(self, connection: Connection, interval: float, live: Live) -> None:
        self._connection = connection
        self._interval = interval
        self._live = live
        self._overview = Overview()
        self._changed = trio.Event()

    async def run(self) -> None:
        """Run until `q` is pressed, or the terminal has gone."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ask)
            await self._read_keys()
            nursery.cancel_scope.cancel()

    async def _ask(self) -> None:
        """Ask for one sample after the other; what a key has changed is asked for at once."""
        while True:
            self._changed = trio.Event()
            try:
                self._overview.take(await take_sample(self._connection, trio.current_time(), time.time()))
            except CedeError as error:
                self._overview.lose(str(error))
            self._draw()
            with trio.move_on_after(self._interval):
                await self._changed.wait()

    async def _read_keys(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(STDIN)
            data = os.read(STDIN, 1024)
            if not data:
                return
            for key in pressed(data):
                if key == "quit":
                    return
                if key == "hang up":
                    await self._hang_up()
                else:
                    self._overview.move(-1 if key == "up" else 1)
            self._draw()

    async def _hang_up(self) -> None:
        """Hang up the chosen request, and say what came of it."""
        if (request_id := self._overview.chosen) is None:
            self._overview.message = "no request lives"
            return
        try:
            was_live = await self._connection.cancel(request_id)
            self._overview.message = f"hung up {request_id}" if was_live else f"{request_id} had ended"
        except CedeError as error:
            self._overview.message = str(error)
        self._changed.set()

    def _draw(self) -> None:
        self._live.update(draw(self._overview, self._connection.url, keys=True), refresh=True)
