"""`cede kv`: what lies in a folder of KV blocks, whether it is sound, and making it smaller.  Torch is not imported."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import click

from runtime.common.units import counted, format_size, parse_duration
from runtime.errors import CedeError
from web.commands.options.flags import option_flag
from web.commands.options.parameters import EXISTING_FOLDER, SIZE, Parsed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.kv.blocks import BlockKey
    from runtime.kv.disk.folder import FoundBlock

kv_dir = option_flag("kv-dir", required=True, type=EXISTING_FOLDER, help="As given to `serve`.")
model_option = click.option("--root", "prefix", default="", metavar="HEX", help="Only models whose key starts so.")


@dataclass(frozen=True, slots=True)
class Root:
    """One model's blocks."""

    key: BlockKey
    folder: int  # descriptor
    blocks: list[FoundBlock]
    irregular: list[str]  # names of blocks that are no regular files


@contextmanager
def opened(folder: Path, prefix: str = "", *, lock: bool = False) -> Iterator[list[Root]]:
    """The models whose keys start with `prefix`.  Raises ClickException."""
    from runtime.kv.disk.folder import LOCK, KVFolderError, locked_folder, opened_root, roots, scan

    with ExitStack() as stack:
        try:
            keys = roots(folder)
            if not keys and not (folder / LOCK).exists():
                raise KVFolderError(f"{folder}: is not a folder of KV blocks")
            if keys and lock:  # a `lock` beside no blocks may be anybody's
                stack.enter_context(locked_folder(folder))
            found = []
            for key in keys:
                if key.hex().startswith(prefix.lower()):
                    descriptor = stack.enter_context(opened_root(folder, key))
                    found.append(Root(key, descriptor, *scan(descriptor)))
        except CedeError as error:
            raise click.ClickException(str(error)) from None
        if prefix and not found:
            raise click.ClickException(f"{folder}: no model's key starts with {prefix}")
        yield found


@click.group(short_help="Look after a folder of KV blocks.")
def kv() -> None:
    """Look after a folder of KV blocks (`serve --kv-dir`)."""


@kv.command("ls")
@kv_dir
@option_flag("api-key-file", help="As given to `serve` with `--isolate-keys on`: sequences of its keys are known.")
def list_roots(kv_dir: Path, api_key_file: Path | None) -> None:
    """List the models that have blocks, by their root keys.

    A chain is a sequence from its start to a block that none continues; loose blocks lack one before them.  States are
    those of recurrent layers, which stand behind some blocks.  Where
    `--isolate-keys` was on, sequences start anew for each API key, by its name: without the keys theirs look loose.
    """
    owners = [] if api_key_file is None else _owners(api_key_file)
    with opened(kv_dir) as found:
        for root in found:
            if not root.blocks:
                continue
            of_kv = [block for block in root.blocks if not block.is_state]
            held = {block.key for block in of_kv}
            parents = {block.parent for block in of_kv}
            loose = len(root.blocks) - len(_reachable(root, owners))
            stamps = [block.stamp for block in root.blocks]
            click.echo(f"{root.key.hex()}  {_layout(root)}")
            chains = counted(len(held - parents), "chain") + (f", {loose} loose" if loose else "")
            states = [block for block in root.blocks if block.is_state]
            behind = f"; {counted(len(states), 'state')}, {format_size(_size(states))}" if states else ""
            click.echo(f"  {_amount(of_kv)} in {chains}{behind}")
            click.echo(f"  used from {_date(min(stamps))} to {_date(max(stamps))}")
        click.echo(f"{_amount([block for root in found for block in root.blocks])} in all")


@kv.command()
@kv_dir
@model_option
@click.option("--delete", is_flag=True, help="Remove the bad ones but a newer cede's; not while a server runs.")
def verify(kv_dir: Path, prefix: str, delete: bool) -> None:
    """Read every block and check it; exit with 1 if any is bad."""
    from runtime.kv.disk.files import BadBlockFile, read_block

    good = bad = 0
    with opened(kv_dir, prefix, lock=delete) as found:
        for root in found:
            problems, newer = dict.fromkeys(root.irregular, "it is not a regular file"), set()
            for block in root.blocks:
                try:
                    read_block(root.folder, block.name, root=root.key)
                    good += 1
                except BadBlockFile as error:
                    if error.reason != "missing":  # a server is at work
                        problems[block.name] = str(error)
                    if error.reason == "version":
                        newer.add(block.name)
            for name, problem in problems.items():
                removal = _delete(root, name) if delete and name not in newer else ""
                click.echo(f"{kv_dir / root.key.hex() / name}: {problem}{removal}")
            bad += len(problems)
    click.echo(f"{good} good, {bad} bad")
    if bad:
        raise SystemExit(1)


@kv.command(short_help="Remove blocks, by their age or to a size.")
@kv_dir
@model_option
@click.option("--older-than", type=Parsed("duration", parse_duration), help="Not used for so long (90s, 12h, 7d).")
@click.option("--to-size", type=SIZE, help="Least recently used, until so much is left (2GiB).")
@click.option("--all", "everything", is_flag=True, help="All blocks.")
def prune(kv_dir: Path, prefix: str, older_than: float | None, to_size: int | None, everything: bool) -> None:
    """Remove blocks, the ends of sequences before their starts; refused while a server uses the folder."""
    from runtime.kv.disk.folder import remove, remove_temporaries
    from runtime.kv.index import BlockIndex, IndexEntry

    if older_than is None and to_size is None and not everything:
        raise click.UsageError("say what to remove: --older-than, --to-size or --all")
    limit = 0 if everything else to_size
    oldest = None if older_than is None else time.time_ns() - int(older_than * 1e9)
    index, places = BlockIndex(), {}
    gone: list[FoundBlock] = []
    with opened(kv_dir, prefix, lock=True) as found:
        for root in found:
            remove_temporaries(root.folder)
            for block in root.blocks:
                if block.key not in index:
                    index.add(block.key, IndexEntry(block.parent, block.nbytes, block.stamp))
                    places[block.key] = (root, block)
        while (key := index.next_to_go()) is not None:
            root, block = places[key]
            too_large = limit is not None and index.nbytes > limit
            too_old = oldest is not None and block.stamp < oldest
            if not (too_large or too_old):
                break
            try:
                remove(root.folder, block.name)
            except OSError as error:
                raise click.ClickException(f"{kv_dir / root.key.hex() / block.name}: {error.strerror}") from None
            index.remove(key)
            gone.append(block)
        for root in found:
            with suppress(OSError):  # unless something is left in it
                os.rmdir(kv_dir / root.key.hex())
    click.echo(f"removed {_amount(gone)}; left {counted(len(index), 'block')}, {format_size(index.nbytes)}")


def _owners(api_key_file: Path) -> list[str]:
    """The names of the keys in a file.  Raises ClickException."""
    from web.process.access.key_file import KeyFile

    try:
        return [key.name for key in KeyFile(api_key_file).keys()]
    except (CedeError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _reachable(root: Root, owners: list[str]) -> set[BlockKey]:
    """The blocks that hang together with the root, or with that of an owner."""
    from runtime.kv.blocks import owner_root

    children: defaultdict[BlockKey, list[BlockKey]] = defaultdict(list)
    for block in root.blocks:
        children[block.parent].append(block.key)
    reached: set[BlockKey] = set()
    ahead = [root.key, *(owner_root(root.key, owner) for owner in owners)]
    while ahead:
        for key in children.pop(ahead.pop(), ()):
            reached.add(key)
            ahead.append(key)
    return reached


def _layout(root: Root) -> str:
    from runtime.kv.disk.files import BadBlockFile, read_header

    try:
        first = next((block for block in root.blocks if not block.is_state), root.blocks[0])
        layout = read_header(root.folder, first.name).layout
    except BadBlockFile as error:
        return f"(unknown: {error})"
    return f"{layout.kind} {list(layout.shape)}"


def _delete(root: Root, name: str) -> str:
    try:
        os.unlink(name, dir_fd=root.folder)
    except OSError as error:
        return f"; not removed: {error.strerror}"
    return "; removed"


def _amount(blocks: list[FoundBlock]) -> str:
    return f"{counted(len(blocks), 'block')}, {format_size(_size(blocks))}"


def _size(blocks: list[FoundBlock]) -> int:
    return sum(block.nbytes for block in blocks)


def _date(stamp: int) -> str:
    return datetime.fromtimestamp(stamp / 1e9).isoformat(" ", "seconds")
