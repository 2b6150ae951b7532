"""`cede worker`: an engine in a cluster."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from web.commands.assembly import server_options
from web.commands.completion import complete_model
from web.commands.foreign import ServeCommand
from web.commands.options.definitions import WORKER
from web.commands.options.flags import option_flags
from web.commands.serve import (
    LoadingBar,
    begin,
    begin_serving,
    fault_plan,
    find_model,
    hooks_of,
    listening_place,
    said_behind,
)
from web.process.options import Cluster

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from runtime.testing.faults import FaultPlan
    from web.observability.logs.handler import LineHandler
    from web.process.signals import EarlyStop
    from web.serving.server import ServerOptions

WITH_PARENT = "--with-parent"
"""The option of those that `cede cluster` starts: what their log calls them."""

with_parent = click.option(WITH_PARENT, "part", hidden=True, help="Stop when the standard input ends.")


@click.command(cls=ServeCommand, short_help="Serve a model to a cluster's front door.")
@click.argument("named", required=False, metavar="[MODEL]", shell_complete=complete_model)
@option_flags(*WORKER)
@with_parent
@click.pass_context
def worker(ctx: click.Context, /, named: str | None, part: str | None, **_: Any) -> None:  # noqa: ANN401
    """Serve a model to the front doors of a cluster, which `cede front-door` and `cede cluster` are.

    It has all of the options of `cede serve`, and at --port the same server: receipts, slots, metrics and the page of
    this worker.  SIGTERM or Ctrl-C leaves the cluster, lets running requests finish within --grace, and moves the rest
    to other workers.
    """
    chosen, log, early = begin(ctx, named, part)
    with said_behind(log):
        from web.cluster.settings import require_dynamo

        require_dynamo()
        if part is not None:
            from web.cluster.children import stop_with_parent

            stop_with_parent()
        plan = fault_plan(chosen)
        with listening_place(chosen) as sockets:
            options = server_options(chosen, partial(find_model, early))
            _run(options, sockets, chosen.config(Cluster, control_port=0), log, early, plan)


def _run(
    options: ServerOptions,
    sockets: Sequence[socket.socket],
    cluster: Cluster,
    log: LineHandler,
    early: EarlyStop,
    plan: FaultPlan | None,
) -> None:
    from web.cluster.guest import run_as_guest
    from web.cluster.worker import WorkerHooks
    from web.serving.server import run_server

    hooks = WorkerHooks(cluster, hooks_of(plan))

    def announce(url: str) -> None:
        begin_serving(early)
        log.say(f"worker {hooks.worker_id} pid {os.getpid()} at {url}")

    progress = LoadingBar() if sys.stderr.isatty() else None
    run = partial(run_server, options, sockets, progress=progress, announce=announce, hooks=hooks)
    run_as_guest(run, hooks.clock)
