"""`cede cluster`: a front door and its workers on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from web.commands.assembly import refuse_contradictions
from web.commands.completion import complete_model
from web.commands.foreign import ServeCommand
from web.commands.options.chosen import Chosen
from web.commands.options.config_file import CONFIG_VARIABLE
from web.commands.options.definitions import DEFINITIONS
from web.commands.options.flags import config_file, option_flags
from web.commands.serve import begin_log, listening_place, said_behind
from web.commands.worker import WITH_PARENT
from web.process.options import Listening
from web.process.signals import exit_on_signals

if TYPE_CHECKING:
    from web.cluster.children import Program
    from web.observability.logs.handler import LineHandler


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
    log = begin_log(chosen)
    exit_on_signals()
    refuse_contradictions(chosen)
    with said_behind(log):
        from web.cluster.settings import require_dynamo

        require_dynamo()
        # The port is had from now on, and the front door listens on it once a worker is there.
        with listening_place(chosen) as place, tempfile.TemporaryDirectory(prefix="cede-cluster-") as folder:
            environment = child_environment(chosen, None if config_file(ctx) is None else str(config_file(ctx)))
            if chosen["discovery"].value == "file" and chosen["discovery-dir"].value is None:
                environment["CEDE_DISCOVERY_DIR"] = folder
            door = Listening(chosen["host"].value, place[0].getsockname()[1])
            _run(programs(environment, workers, door, chosen["grace"].value), log)


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


def programs(environment: dict[str, str], workers: int, door: Listening, grace: float) -> tuple[list[Program], Program]:
    """Return what the workers run, and the front door, which ends after them and has nothing to wait for then."""
    from web.cluster.children import Program

    def program(name: str, *arguments: str, grace: float) -> Program:
        return Program(name, [sys.executable, "-m", "web", *arguments, WITH_PARENT, name], environment, grace)

    at_a_free_port = ["--host", "127.0.0.1", "--port", "0"]
    where = ["--host", door.host, "--port", str(door.port)]
    return (
        [program(f"worker {number}", "worker", *at_a_free_port, grace=grace) for number in range(1, workers + 1)],
        program("the front door", "front-door", *where, "--grace", "0", grace=0),
    )


def _run(parts: tuple[list[Program], Program], log: LineHandler) -> None:
    import trio

    from web.cluster.children import Child, run_children

    workers, front_door = parts
    trio.run(partial(run_children, [Child(worker, log.say) for worker in workers], Child(front_door, log.say)))
