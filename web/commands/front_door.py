"""`cede front-door`: the address at which the workers of a cluster are one server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from web.commands.assembly import policy_of
from web.commands.options.chosen import Chosen
from web.commands.options.flags import SectionedCommand, option_flags
from web.commands.serve import begin_log, said_behind
from web.commands.worker import with_parent
from web.process.limits import Limits
from web.process.options import Access, Cluster, Listening

if TYPE_CHECKING:
    from web.observability.logs.handler import LineHandler


@click.command("front-door", cls=SectionedCommand, short_help="Serve a cluster's workers at one address.")
@option_flags(
    "host",
    "port",
    "control-port",
    "discovery",
    "discovery-dir",
    "router",
    "namespace",
    "allow-origin",
    "allow-host",
    "max-connections",
    "max-body",
    "stall-timeout",
    "grace",
    "log-level",
    "log-format",
)
@with_parent
@click.pass_context
def front_door(ctx: click.Context, /, part: str | None, **_: Any) -> None:  # noqa: ANN401  # the context has them, too
    """Serve OpenAI's HTTP API, and pass each request on to one of the workers that discovery knows.

    At --control-port it lists and ends requests of all workers.  Neither asks for a key: put something in front of them
    that does, where they can be reached by others.
    """
    chosen = Chosen.of(ctx)
    log = begin_log(chosen, part)
    with said_behind(log):
        from web.cluster.settings import require_dynamo

        require_dynamo()
        if part is not None:
            from web.cluster.children import stop_with_parent

            stop_with_parent()
        from web.cluster.front_door import Door, DoorRules, run_front_door

        door = Door(chosen["host"].value, chosen["port"].value)
        access = Access(allowed_origins=chosen["allow-origin"].value, allowed_hosts=chosen["allow-host"].value)
        policy = policy_of(access, Listening(door.host, door.port))
        rules = DoorRules(policy, chosen.config(Limits), chosen["grace"].value)
        run_front_door(chosen.config(Cluster, model_name=None), door, rules, partial(announce, log))


def announce(log: LineHandler, url: str, control: str) -> None:
    """Say where both addresses are; the front door's comes last."""
    log.say(f"control at {control}")
    log.say(f"cede cluster at {url}")
