"""`cede serve`: runs a server as its options say."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from runtime.store.resolve import resolve_model
from web.commands.assembly import refuse_contradictions, server_options
from web.commands.completion import complete_model
from web.commands.foreign import ServeCommand
from web.commands.options.chosen import Chosen
from web.commands.options.definitions import SERVER
from web.commands.options.flags import option_flags
from web.commands.progress import DownloadProgress
from web.process.failures import said_in_a_line
from web.process.options import Diagnostics, Listening
from web.process.signals import EarlyStop, exit_now, unwound_by_signals

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from runtime.testing.faults import FaultPlan
    from web.observability.logs.handler import LineHandler
    from web.process.hooks import ServerHooks
    from web.serving.server import ServerOptions


@click.command(cls=ServeCommand, short_help="Serve a model over OpenAI's HTTP API, and others.")
@click.argument("named", required=False, metavar="[MODEL]", shell_complete=complete_model)
@option_flags(*SERVER)
@click.pass_context
def serve(ctx: click.Context, /, named: str | None, **_: Any) -> None:  # noqa: ANN401  # the context has them, too
    """Serve a model over OpenAI's HTTP API.

    MODEL is the same as --model; without either, the small model that comes with cede is served.

    Each option can be given as a flag, as a variable (CEDE_KV_RAM for --kv-ram) or in a file (--config); a flag goes
    before a variable, and that before the file.  `cede config` shows what is in force.

    SIGTERM or Ctrl-C lets running requests finish within --grace; a second one exits at once.
    """
    chosen, log, early = begin(ctx, named)
    with said_behind(log):
        plan = fault_plan(chosen)
        with listening_place(chosen) as sockets:
            _run(server_options(chosen, partial(find_model, early)), sockets, log, early, plan)


def begin(ctx: click.Context, named: str | None, part: str | None = None) -> tuple[Chosen, LineHandler, EarlyStop]:
    """Begin the log and listen to signals; what was chosen, the log, and what a signal does while the model loads.

    Raises:
        click.ClickException: what was chosen contradicts itself.
    """
    chosen = Chosen.of(ctx, named)
    log = begin_log(chosen, part)
    early = EarlyStop()
    early.install()
    refuse_contradictions(chosen)
    return chosen, log, early


def begin_log(chosen: Chosen, part: str | None = None) -> LineHandler:
    """Log as the options say; each line names the part of a cluster that this process is, if it is one."""
    from web.observability.logs.setup import log_to_stderr

    return log_to_stderr(chosen["log-level"].value, chosen["log-format"].value, os.environ, part)


@contextmanager
def said_behind(log: LineHandler) -> Iterator[None]:
    """Say what cede raises on purpose in a line behind the log; where nobody reads that, the process ends without.

    Raises:
        click.ClickException: the line.
    """
    try:
        with said_in_a_line():
            yield
    except click.ClickException:
        log.flush()
        if log.is_stalled:  # so would be the stream that the error is to be written to
            exit_now(1)
        raise


def listening_place(chosen: Chosen) -> AbstractContextManager[list[socket.socket]]:
    """Have the address before a model is downloaded or loaded.  Raises ListenError."""
    from web.http.listeners import bound_sockets

    return bound_sockets(chosen["host"].value, chosen["port"].value)


def find_model(early: EarlyStop, model: str | None, models_dir: Path | None) -> Path:
    """Return where a model lies.  One that is not here is downloaded; a signal ends that, and the process, in order.

    Only that: while torch is imported, an exception out of nowhere could be raised amid code that cannot pass it on.
    """
    with unwound_by_signals(early.end):
        return resolve_model(model, models_dir, DownloadProgress())


def fault_plan(chosen: Chosen) -> FaultPlan | None:
    """Return what is to go wrong on this server.  Raises ChaosError."""
    path = chosen.config(Diagnostics).chaos
    if path is None:
        return None
    from web.testing.chaos import plan_for

    return plan_for(chosen.config(Listening).host, path)


def hooks_of(plan: FaultPlan | None) -> ServerHooks:
    """Return the hooks of the server: something that fails as planned, if there is a plan."""
    if plan is None:
        from web.process.hooks import ServerHooks

        return ServerHooks()
    from web.testing.planned_faults import PlannedFaults

    return PlannedFaults(plan)


def begin_serving(early: EarlyStop) -> None:
    """Leave signals to the server, which serves now, and what it is made of to the end.

    To look through that for garbage again and again would stop all threads, and everybody's tokens, for 0.15 s each
    time.
    """
    early.has_served = True
    gc.collect()
    gc.freeze()


def _run(
    options: ServerOptions,
    sockets: Sequence[socket.socket],
    log: LineHandler,
    early: EarlyStop,
    plan: FaultPlan | None,
) -> None:
    import trio

    from web.serving.server import run_server

    def announce(url: str) -> None:
        begin_serving(early)
        log.say(f"cede serves {options.model_name} at {url}")

    progress = LoadingBar() if sys.stderr.isatty() else None
    hooks = hooks_of(plan)
    run = partial(run_server, options, sockets, progress=progress, announce=announce, hooks=hooks)
    trio.run(run, clock=hooks.clock)


class LoadingBar:
    """Shows on a terminal how much of the weights has been read."""

    def __init__(self) -> None:
        self._bar = click.progressbar(length=1, label="loading", file=sys.stderr)

    def __call__(self, done: int, total: int) -> None:
        """Take the bytes read so far, and in all."""
        self._bar.length = total
        self._bar.update(done - self._bar.pos)
        if done >= total:
            self._bar.render_finish()
