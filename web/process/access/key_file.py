"""The file of keys, one a line: a record with the digest of a key, its name and its limits; or a key as it is.

A record is a JSON object, as `cede keys add` writes it:

    {"name": "alice", "sha256": "9f86d0...", "requests": 4, "queue_share": 0.5, "tokens_per_minute": 60000}

Whatever line does not begin with a brace is a key itself, without limits.  Empty lines are nothing.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import signal
import stat
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import trio

from runtime.common.file_lock import lock_file
from runtime.errors import CedeError
from web.process.access.api_keys import ApiKey, KeyLimits, digest_of, plain_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from web.process.access.api_keys import KeyRing

logger = logging.getLogger("cede.web")

PREFIX = "sk-cede-"  # so that whoever finds a key, such as a scanner of secrets, knows what it is
KEY_BYTES = 32  # of randomness
MAX_WEIGHT = 1000  # of a key's share
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
OTHERS = stat.S_IWGRP | stat.S_IRWXO
"""What nobody may do with the file but its owner, and, by reading it, its group."""
HEX_DIGEST = re.compile(r"[0-9a-f]{64}")


class ApiKeyError(CedeError):
    """There is no key where one was expected, or its record is wrong; the message says where."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the file, and the key that it stands for; None for an empty one."""

    text: bytes
    key: ApiKey | None


def read_keys(given: Iterable[str], file: Path | None, *, may_be_empty: bool = False) -> list[ApiKey]:
    """Return the keys that are to be served, and warn in the log of a file that others can read or change.

    Args:
        given: keys, as the command line has them.
        file: with more of them; None for no file.
        may_be_empty: whether a file without any key is one.

    Raises:
        ApiKeyError: a key is empty, a record is wrong, two keys have one name, or there is no key in the file.
        OSError: the file cannot be read.
    """
    plain = [os.fsencode(key).strip() for key in given]
    if not all(plain):
        raise ApiKeyError("--api-key: the key is empty")
    keys = dict.fromkeys(map(plain_key, plain))
    if file is not None:
        of_file = keys_of(_lines(file.read_bytes(), file))
        if not (of_file or may_be_empty):
            raise ApiKeyError(f"{file}: there is no key in it; `cede keys add NAME --api-key-file {file}` makes one")
        if (exposed := stat.S_IMODE(file.stat().st_mode)) & OTHERS:
            logger.warning("%s: its mode is %o, so others can read or change it; chmod 600 helps", file, exposed)
        keys |= dict.fromkeys(of_file)
    _check_distinct(keys, "the keys" if file is None else str(file))
    return list(keys)


def keys_of(lines: Iterable[_Line]) -> list[ApiKey]:
    """Return the keys on these lines."""
    return [line.key for line in lines if line.key is not None]


class KeyFile:
    """A file of keys that is to be changed.  Each change is whole or not at all, and comes after the one before.

    Args:
        path: of the file; the first change makes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()  # of a link's target, which a rename would otherwise replace by the file

    def keys(self) -> list[ApiKey]:
        """Return the keys in the file.

        Raises:
            ApiKeyError: a record is wrong.
            OSError: the file cannot be read.
        """
        return keys_of(_lines(self._path.read_bytes(), self._path))

    def add(self, name: str, *, limits: KeyLimits, admin: bool = False) -> str:
        """Make a key, and return it; nobody can learn it later.

        Raises:
            ApiKeyError: the name is none, or is taken.
            OSError: the file cannot be read or written.
        """
        _check_name(name, str(self._path))
        key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
        added = ApiKey(digest_of(key.encode()), name, admin, limits)

        def change(lines: list[_Line]) -> list[_Line]:
            before = keys_of(lines)
            if name in (key.name for key in before):
                raise ApiKeyError(f"{self._path}: there is a key named {name!r} already; remove it first")
            _check_distinct([*before, added], str(self._path))
            return [*lines, _Line(_record(added), added)]

        self._change(change, may_be_missing=True)
        return key

    def remove(self, name: str) -> int:
        """Take a key out of the file, and return how many are left.

        Raises:
            ApiKeyError: there is none of that name.
            OSError: the file cannot be read or written.
        """

        def change(lines: list[_Line]) -> list[_Line]:
            left = [line for line in lines if line.key is None or line.key.name != name]
            if left == lines:
                raise ApiKeyError(f"{self._path}: there is no key named {name!r}")
            return left

        return len(keys_of(self._change(change)))

    def _change(self, change: Callable[[list[_Line]], list[_Line]], *, may_be_missing: bool = False) -> list[_Line]:
        """Write the lines that `change` makes of those that are there."""
        with _locked(self._path.parent):
            before = b""
            with suppress(*[FileNotFoundError] * may_be_missing):
                before = self._path.read_bytes()
            lines = change(_lines(before, self._path))
            _replace(self._path, b"".join(line.text + b"\n" for line in lines))
        return lines


def _lines(raw: bytes, file: Path) -> list[_Line]:
    """Return the lines of a file's content.  Raises ApiKeyError."""
    lines = []
    for number, text in enumerate(raw.splitlines(), 1):
        stripped = text.strip()
        if stripped.startswith(b"{"):
            lines.append(_Line(text, _key_of_record(stripped, f"{file}, line {number}")))
        else:
            lines.append(_Line(text, plain_key(stripped) if stripped else None))
    return lines


def _key_of_record(text: bytes, place: str) -> ApiKey:
    """Return the key of a record at a place.  Raises ApiKeyError."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise ApiKeyError(f"{place}: it begins with a brace, and is no JSON object: {error}") from None
    digest = record.pop("sha256", None)
    if not (isinstance(digest, str) and HEX_DIGEST.fullmatch(digest)):
        raise ApiKeyError(f"{place}: sha256 should be 64 hexadecimal digits in lower case")
    name, admin = record.pop("name", None), record.pop("admin", False)
    _check_name(name, place)
    if not isinstance(admin, bool):
        raise ApiKeyError(f"{place}: admin should be true or false")
    known = [field.name for field in fields(KeyLimits)]
    if unknown := sorted(record.keys() - known):
        raise ApiKeyError(
            f"{place}: there is no field {unknown[0]!r}; there are name, sha256, admin, {', '.join(known)}"
        )
    return ApiKey(bytes.fromhex(digest), name, admin, _check_limits(record, place))


def _check_limits(record: dict[str, Any], place: str) -> KeyLimits:
    for name in ("requests", "tokens_per_minute"):
        if (value := record.get(name)) is not None and (type(value) is not int or value < 1):
            raise ApiKeyError(f"{place}: {name} should be an integer above 0, or left out")
    share = record.get("queue_share")
    if share is not None and (type(share) not in (int, float) or not 0 <= share <= 1):
        raise ApiKeyError(f"{place}: queue_share should be a number from 0 to 1, or left out")
    weight = record.get("weight")
    if weight is not None and (type(weight) not in (int, float) or not 1 / MAX_WEIGHT <= weight <= MAX_WEIGHT):
        raise ApiKeyError(f"{place}: weight should be a number from {1 / MAX_WEIGHT:g} to {MAX_WEIGHT}, or left out")
    return KeyLimits(**record)


def _check_name(name: object, place: str) -> None:
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        message = (
            f"{place}: a key's name has 1 to 64 of the characters A-Z a-z 0-9 . _ @ -, not first one of the last four"
        )
        raise ApiKeyError(message)


def _check_distinct(keys: Iterable[ApiKey], place: str) -> None:
    """Raise ApiKeyError where two keys have one name, or one key two names: whose a request is would be a guess."""
    names, digests = set[str](), set[bytes]()
    for key in keys:
        if key.name in names:
            raise ApiKeyError(f"{place}: there are two keys named {key.name!r}")
        if key.digest in digests:
            raise ApiKeyError(f"{place}: the key named {key.name!r} is there under another name, too")
        names.add(key.name)
        digests.add(key.digest)


def _record(key: ApiKey) -> bytes:
    limits = {name: value for name, value in asdict(key.limits).items() if value is not None}
    record = {"name": key.name, "sha256": key.digest.hex()} | ({"admin": True} if key.admin else {}) | limits
    return json.dumps(record).encode()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Be the only one who changes a file of keys in a folder; the folder is locked, so no file is left behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock_file(descriptor)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Put another content in a file's place, by one rename; only its owner can read it, who stays the same."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            if os.geteuid() == 0 and path.exists():  # else the server, which is another user, could not read it
                before = path.stat()
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


async def reload_on_hangup(
    ring: KeyRing,
    read: Callable[[], list[ApiKey]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Read the keys again at each SIGHUP; those that were in force stay so if that fails.

    Requests that are being served go on, also those of a key that is gone.

    Args:
        ring: gets the keys.
        read: reads them; raises ApiKeyError or OSError.
        task_status: is told once the signal is caught.
    """
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            try:
                keys = await trio.to_thread.run_sync(read, abandon_on_cancel=True)  # a disk may take its time
            except (ApiKeyError, OSError) as error:
                logger.error("SIGHUP: the keys stay as they were: %s", error)
            else:
                ring.replace(keys)
                logger.info("SIGHUP: %d API keys are served", len(keys))
