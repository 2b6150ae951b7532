"""Packages of npm's registry, of which files are taken as they are published."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = 60
"""Seconds for which the registry may be silent."""


@dataclass(frozen=True)
class NpmArchive:
    """One version of a package, and what is taken of it.

    Attributes:
        package: its name, perhaps with a scope.
        version: of it.
        integrity: the archive's digest, as `npm view PACKAGE dist.integrity` says it.
        taken: the names that files of the archive get here, by their names there without `package/`.
    """

    package: str
    version: str
    integrity: str
    taken: Mapping[str, str]

    @property
    def url(self) -> str:
        """Address of the archive."""
        name = self.package.rpartition("/")[2]
        return f"https://registry.npmjs.org/{self.package}/-/{name}-{self.version}.tgz"

    def extract(self, archive: bytes) -> dict[str, bytes]:
        """Return the files that are taken of the archive, under their names here.

        Raises:
            ValueError: the archive is another one.
        """
        digest = f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
        if digest != self.integrity:
            raise ValueError(f"{self.url} has changed: {digest} is not {self.integrity}")
        files = {}
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            for member, name in self.taken.items():
                content = opened.extractfile(f"package/{member}")
                assert content is not None, member
                files[name] = content.read()
        return files

    def fetch(self) -> dict[str, bytes]:
        """Return the same, of the archive that the registry has now."""
        with urllib.request.urlopen(self.url, timeout=TIMEOUT) as response:
            return self.extract(response.read())
