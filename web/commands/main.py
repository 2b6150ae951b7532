"""The command line.

Torch is not imported before `main` has set what the libraries below it read once.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import NoArgsIsHelpError

from runtime.common.log_text import printable, shortened
from web.commands.added import added_names, installed_version, load_added
from web.commands.chat.command import chat
from web.commands.client.run import run
from web.commands.cluster import cluster
from web.commands.completion import completion
from web.commands.config import config
from web.commands.doctor import doctor
from web.commands.front_door import front_door
from web.commands.keys import keys
from web.commands.kv import kv
from web.commands.models import models, pull, rm
from web.commands.serve import serve
from web.commands.top.command import top
from web.commands.worker import worker
from web.process.streams import open_closed_streams
from web.process.torch_settings import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Serve": (serve, config, keys, kv, doctor),
    "Cluster": (cluster, worker, front_door),
    "Ask": (run, chat, top),
    "Models": (pull, models, rm),
    "Shell": (completion,),
}
"""Our own commands, as `cede --help` lists them."""
ADDED = "Added by packages"


class Program(click.Group):
    """All commands, added ones too; runs without standard streams as well."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Run as `click.Group.main` does."""
        open_closed_streams()
        return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401
        """Read the program's own options."""
        with _errors_on_their_lines():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """Read the options of a command, and carry it out."""
        with _errors_on_their_lines():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Our own in their order, then those that are added."""
        return [*self.commands, *(name for name in added_names() if name not in self.commands)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them by their sections."""
        others = [name for name in self.list_commands(ctx) if name not in self.commands]
        names = {title: [command.name or "" for command in section] for title, section in SECTIONS.items()}
        width = max(map(len, self.list_commands(ctx)))
        for title, listed in (names | {ADDED: others}).items():
            found = [(name, self.get_command(ctx, name)) for name in listed]
            rows = [(name.ljust(width), command.get_short_help_str(90)) for name, command in found if command]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """One of our own, or one that is added.

        Raises:
            UsageError: there is none, which may be because only installed packages can add one.
        """
        command = super().get_command(ctx, name) or load_added(name)
        if command is None and installed_version() is None:
            raise click.UsageError(
                f"No such command {name!r}.  cede is not installed, so commands of packages, such as bench, are not "
                "found: pip install -e . in its folder"
            )
        return command


@contextmanager
def _errors_on_their_lines() -> Iterator[None]:
    """Let an error be short and of printable lines, whatever it quotes: a value in a file may have 100 KB.

    Here pass all that the commands, and click itself, tell.
    """
    try:
        yield
    except NoArgsIsHelpError:  # which is the help text
        raise
    except click.ClickException as error:
        whole = error.format_message()
        said = "\n".join(map(printable, shortened(whole).split("\n")))
        if said == whole:
            raise
        raise (
            click.UsageError(said, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(said)
        ) from None
    except OSError as error:  # of what is written to; each command tells of those of its own files
        if error.errno != errno.ENOSPC:
            raise
        raise click.ClickException(os.strerror(error.errno)) from None


def _say_version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"cede, version {installed_version() or 'unknown: it is not installed'}")
        ctx.exit()


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Say the version and exit.",
)
def main() -> None:
    """Serve a language model, and give the accelerator back the moment nobody is listening."""
    settle(os.environ)


for _section in SECTIONS.values():
    for _command in _section:
        main.add_command(_command)
