"""Server that a command talks to: one that runs, or one that lives as long as the command, in this process.

The latter is `web.serving.server.open_server`: the same application on a port of loopback, with a key that nobody else
knows. So a request is what it always is, a nursery with a scope of its own, and there is one client for both.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runtime.store.resolve import resolve_model
from web.commands.assembly import server_options
from web.commands.completion import complete_model
from web.commands.options.chosen import Chosen
from web.commands.options.config_file import URL_VARIABLE
from web.commands.options.flags import option_flag
from web.commands.options.parameters import FILE
from web.process.failures import said_in_a_line
from web.process.signals import exit_now, exit_on_signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from web.commands.client.connection import Connection
    from web.serving.server import ServerOptions

DEFAULT_URL = "http://127.0.0.1:8000"
LOCAL = ("models-dir", "device", "dtype", "quantize", "context", "threads")
"""Options of `serve` that a model in this process is loaded by, beside --model."""

EMBEDDED = "embedded"

Command = TypeVar("Command", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Target:
    """A server.

    Attributes:
        url: of one that runs.
        key: to be sent to it; None for none.
        local: what to serve in this process instead; None to do without.
    """

    url: str
    key: str | None = None
    local: ServerOptions | None = None


def server_flags(function: Command) -> Command:
    """Give a command the options that say which running server is meant."""
    function = click.option(
        "--api-key-file", "key_file", type=FILE, metavar="FILE", help="File whose first line is the key to send."
    )(function)
    function = click.option(
        "--api-key",
        "key",
        envvar="CEDE_API_KEY",
        show_envvar=True,
        metavar="KEY",
        help="Key to send; `ps` shows the flag, but neither the variable nor the file.",
    )(function)
    return click.option(
        "--url",
        envvar=URL_VARIABLE,
        show_envvar=True,
        metavar="URL",
        default=DEFAULT_URL,
        show_default=True,
        help="Server to ask.",
    )(function)


def target_flags(function: Command) -> Command:
    """Give a command the options that say which server is meant, or which model in this process."""
    for name in reversed(LOCAL):
        function = option_flag(name)(function)
    function = click.option(
        "--model",
        "-m",
        "local_model",
        metavar="NAME",
        shell_complete=complete_model,
        help="Serve a model in this process instead, named as for `serve`; `embedded` is the one that comes with cede.",
    )(function)
    return server_flags(function)


def running(url: str, key: str | None, key_file: Path | None) -> Target:
    """A running server, from the options of `server_flags`.  Raises UsageError."""
    if key is None and key_file is None:
        return Target(url)
    if key is None and key_file is not None:
        try:
            key = key_file.read_text(encoding="utf-8").strip().partition("\n")[0]
        except (OSError, ValueError) as error:
            raise click.UsageError(f"{key_file}: {error}") from None
    words = (key or "").split()
    if not words or not words[0].isascii():
        raise click.UsageError("there is no key in what was given as one")
    return Target(url, words[0])


def chosen_target(ctx: click.Context) -> Target:
    """The server that a command with `target_flags` was told to use.

    Raises:
        UsageError: two were named.
        CedeError: the model is not to be had, or an option is not for it.
    """
    given = ctx.params
    if given["local_model"] is None:
        return running(given["url"], given["key"], given["key_file"])
    if ctx.get_parameter_source("url") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--model is served in this process, and --url names a server: say one of them")
    return Target("", local=_local_options(ctx, None if given["local_model"] == EMBEDDED else given["local_model"]))


def _local_options(ctx: click.Context, model: str | None) -> ServerOptions:
    """Return what to serve in this process: the options of the command, and for all others their defaults."""
    from web.commands.progress import DownloadProgress

    return server_options(Chosen.of(ctx).serving(model), partial(resolve_model, progress=DownloadProgress()))


@asynccontextmanager
async def open_target(target: Target) -> AsyncIterator[Connection]:
    """A connection to the server; one in this process lives as long.

    Raises:
        CedeError: the model cannot be loaded; or as `open_connection`.
    """
    from web.commands.client.connection import open_connection

    if target.local is None:
        async with open_connection(target.url, target.key) as connection:
            yield connection
        return
    from web.commands.serve import LoadingBar
    from web.serving.server import open_server

    key = secrets.token_urlsafe()
    progress = LoadingBar() if sys.stderr.isatty() else None
    async with open_server(target.local, key, progress) as url, open_connection(url, key) as connection:
        yield connection


def run_to_end(main: Callable[[], Awaitable[int]], *, local: bool) -> None:
    """Run a command's Trio part, and exit with its status; what cede raises on purpose is said in a line.

    Args:
        main: returns the exit status.
        local: whether a model is served in this process, of which warnings are shown.
    """
    import trio

    exit_on_signals()
    if local:
        from web.observability.logs.setup import log_to_stderr

        log_to_stderr("warning", "text", os.environ)
    with said_in_a_line():
        status = trio.run(main)
    if status:
        sys.stdout.flush()
        exit_now(status)
