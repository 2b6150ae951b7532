"""`cede cluster`: a front door and its workers on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from runtime.errors import CedeError
from web.commands.assembly import refuse_contradictions
from web.commands.completion import complete_model
from web.commands.foreign import ServeCommand
from web.commands.options.chosen import Chosen
from web.commands.options.config_file import CONFIG_VARIABLE
from web.commands.options.definitions import DEFINITIONS
from web.commands.options.flags import config_file, option_flags
from web.commands.serve import begin_log, listening_place
from web.commands.worker import WITH_PARENT
from web.process.signals import exit_on_signals
from web.process.streams import say

if TYPE_CHECKING:
    from web.cluster.children import Program


@click.command(cls=ServeCommand, short_help="Serve a model by several workers on this machine.")
@click.argument("named", required=False, metavar="[MODEL]", shell_complete=complete_model)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="How many workers.")
@option_flags()
@click.pass_context
def cluster(ctx: click.Context, /, named: str | None, workers: int, **_: Any) -> None:  # noqa: ANN401
    """Serve a model by several workers on this machine, behind a front door at --host and --port.

    Each worker is a `cede worker` with the options given here, and a port of its own.  One that dies is started again,
    and its requests go on elsewhere.  SIGTERM or Ctrl-C lets running requests finish within --grace; a second one ends
    all at once.
    """
    chosen = Chosen.of(ctx, named)
    begin_log(chosen)
    exit_on_signals()
    refuse_contradictions(chosen)
    try:
        from web.cluster.installed import require_dynamo

        require_dynamo()
        # The port is had from now on, and the front door listens on it once a worker is there.
        with listening_place(chosen) as (place, *_), tempfile.TemporaryDirectory(prefix="cede-cluster-") as folder:
            environment = child_environment(chosen, None if config_file(ctx) is None else str(config_file(ctx)))
            if chosen["discovery"].value == "file" and chosen["discovery-dir"].value is None:
                environment["CEDE_DISCOVERY_DIR"] = folder
            _run(programs(environment, workers, chosen["host"].value, place.getsockname()[1]))
    except CedeError as error:
        raise click.ClickException(str(error)) from None


def child_environment(chosen: Chosen, config: str | None) -> dict[str, str]:
    """Our environment, with what the command line says as variables, which no list of processes shows."""
    environment = dict(os.environ)
    if config is not None:
        environment[CONFIG_VARIABLE] = config
    for key, definition in DEFINITIONS.items():
        if chosen[key].source is ParameterSource.COMMANDLINE:
            written = definition.write(chosen[key].value)
            environment[definition.variable] = " ".join(written) if isinstance(written, list) else str(written)
    return environment


def programs(environment: dict[str, str], workers: int, host: str, port: int) -> tuple[list[Program], Program]:
    """What the workers run, and the front door."""
    from web.cluster.children import Program

    def program(name: str, *arguments: str) -> Program:
        return Program(name, [sys.executable, "-m", "web", *arguments, WITH_PARENT], environment)

    at_a_free_port = ["--host", "127.0.0.1", "--port", "0"]
    return (
        [program(f"worker {number}", "worker", *at_a_free_port) for number in range(1, workers + 1)],
        program("the front door", "front-door", "--host", host, "--port", str(port)),
    )


def _run(parts: tuple[list[Program], Program]) -> None:
    import trio

    from web.cluster.children import Child, run_children
    from web.commands.client.target import first_of

    workers, front_door = parts
    failure: CedeError | None = None
    try:
        trio.run(partial(run_children, [Child(worker, say) for worker in workers], Child(front_door, say)))
    except* CedeError as group:
        failure = first_of(group)
    if failure is not None:
        raise failure
