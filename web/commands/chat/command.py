"""`cede chat`: the command, and the lifetimes in it."""

from __future__ import annotations

import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from web.commands.client.target import chosen_target, open_target, run_to_end, target_flags
from web.commands.options.flags import SectionedCommand
from web.process.failures import said_in_a_line

if TYPE_CHECKING:
    from web.commands.chat.conversation import Conversation
    from web.commands.client.target import Target


@click.command(cls=SectionedCommand, short_help="Talk with a model at the terminal.")
@click.option("--system", metavar="TEXT", help="What the model is told before all else.")
@click.option("--temperature", "heat", type=float, metavar="NUMBER", help="0 takes the likeliest token.")
@click.option("--max-tokens", type=click.IntRange(0), metavar="N", help="Of an answer, at most.")
@target_flags
@click.pass_context
@said_in_a_line()
def chat(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401  # click's
    """Talk with a model.

    Ctrl-C hangs up an answer and shows what that cost; twice, or Ctrl-D, it leaves.  /help shows the rest.

    A server that runs is asked (--url), or, with --model, a model is served in this process.
    """
    from web.commands.chat.conversation import Conversation

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("a chat wants a terminal; for pipes there is `cede run`")
    settings = {"temperature": given["heat"], "max_tokens": given["max_tokens"]}
    conversation = Conversation(given["system"], {name: value for name, value in settings.items() if value is not None})
    target = chosen_target(ctx)
    run_to_end(partial(hold_chat, target, conversation), local=target.local is not None)


async def hold_chat(target: Target, conversation: Conversation) -> int:
    """Hold a chat; returns the exit status."""
    from rich.console import Console

    from web.commands.chat.prompt import Prompt, open_history
    from web.commands.chat.session import Session
    from web.commands.client.interruption import interrupted_by
    from web.commands.client.terminal import quiet_keys, say_aside

    async with open_target(target) as connection:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the session listens where there is something to hang up
        place = target.url if target.local is None else "this process"
        history, problem = open_history()
        if problem:
            say_aside(problem)
        session = Session(connection, conversation, Prompt(history), Console(highlight=False), place)
        with quiet_keys(sys.stdin.fileno(), signals=False):  # nothing that is typed ahead is lost
            async with interrupted_by(signal.SIGTERM, signal.SIGHUP) as interruption:
                await session.run()
        return 0 if interruption.number is None else 128 + interruption.number
