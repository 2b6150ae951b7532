"""`cede keys`: who has a key, and a key for somebody else.  Torch is not imported."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runtime.errors import CedeError
from web.commands.options.flags import option_flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from web.process.access.api_keys import ApiKey

NEW_FILE = click.Path(dir_okay=False, path_type=Path)
api_key_file = option_flag("api-key-file", required=True, help="As given to `serve`.")


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """Let what is wrong with a file be said without a traceback."""
    try:
        yield
    except CedeError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None


@click.group(short_help="Look after a file of API keys.")
def keys() -> None:
    """Look after a file of API keys (`serve --api-key-file`), which holds digests of them.

    A server that runs reads the file again when it gets SIGHUP.
    """


@keys.command(short_help="Make a key for NAME and print it, this once.")
@click.argument("name")
@option_flag("api-key-file", required=True, type=NEW_FILE, help="As given to `serve`; it is made if there is none.")
@click.option("--requests", type=click.IntRange(1), metavar="N", help="At a time; by default as many as there is room.")
@click.option("--queue-share", type=click.FloatRange(0, 1), metavar="SHARE", help="Of the queue's places, from 0 to 1.")
@click.option("--tokens-per-minute", type=click.IntRange(1), metavar="N", help="That are computed for it.")
@click.option(
    "--weight",
    type=click.FloatRange(0.001, 1000),
    metavar="WEIGHT",
    help="Of its share among the keys; others have 1.",
)
@click.option("--admin", is_flag=True, help="It sees and cancels the others' requests, too.")
def add(
    name: str,
    api_key_file: Path,
    requests: int | None,
    queue_share: float | None,
    tokens_per_minute: int | None,
    weight: float | None,
    admin: bool,
) -> None:
    """Make a key for NAME and print it, this once: the file has only its digest.

    A server that runs serves it once it has read the file again (SIGHUP).
    """
    from web.process.access.api_keys import KeyLimits
    from web.process.access.key_file import KeyFile

    limits = KeyLimits(requests, queue_share, tokens_per_minute, weight)
    with _told(api_key_file):
        click.echo(KeyFile(api_key_file).add(name, limits=limits, admin=admin))


@keys.command("list")
@api_key_file
def list_keys(api_key_file: Path) -> None:
    """List the keys by their names, with their limits."""
    from web.process.access.key_file import KeyFile

    with _told(api_key_file):
        for key in KeyFile(api_key_file).keys():
            click.echo("  ".join([key.name, *_words(key)]))


@keys.command()
@click.argument("name")
@api_key_file
def remove(name: str, api_key_file: Path) -> None:
    """Take the key of NAME out of the file."""
    from web.process.access.key_file import KeyFile

    with _told(api_key_file):
        left = KeyFile(api_key_file).remove(name)
    click.echo(f"{left} left" if left else "none is left: a server that reads the file again serves nobody by it")


def _words(key: ApiKey) -> list[str]:
    """Return what there is to say of a key beside its name."""
    limits = key.limits
    said = [
        "admin" if key.admin else None,
        None if limits.requests is None else f"requests={limits.requests}",
        None if limits.queue_share is None else f"queue-share={limits.queue_share:g}",
        None if limits.tokens_per_minute is None else f"tokens-per-minute={limits.tokens_per_minute}",
        None if limits.weight is None else f"weight={limits.weight:g}",
    ]
    return [word for word in said if word is not None]
