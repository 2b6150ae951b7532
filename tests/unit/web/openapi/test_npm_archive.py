"""Archive of a package: what is taken of it, and that it is that package."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile

import pytest

from web.openapi.npm_archive import NpmArchive


def archive(**members: bytes) -> bytes:
    """An archive as npm's registry has them."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as opened:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            opened.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def named(content: bytes, package: str = "a") -> NpmArchive:
    """Return what names this archive, and takes one file of it."""
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
    return NpmArchive(package, "1.2.3", integrity, {"wanted": "here.js"})


def test_it_takes_what_is_named_under_its_name_here() -> None:
    content = archive(wanted=b"code", other=b"more")
    assert named(content).extract(content) == {"here.js": b"code"}


def test_another_archive_is_refused() -> None:
    with pytest.raises(ValueError, match="has changed"):
        named(archive(wanted=b"code")).extract(archive(wanted=b"other code"))


def test_a_scope_is_no_part_of_the_file_name() -> None:
    assert named(b"", "@some/thing").url == "https://registry.npmjs.org/@some/thing/-/thing-1.2.3.tgz"
