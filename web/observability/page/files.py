"""The files of the page: read once, served as they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

INDEX = "index.html"

SERVER_VIEWS, BASE_VIEWS, CLUSTER_VIEWS = "live chat", "live", "workers"
"""The views of the page: at a server's address, and at the control address of a cluster."""

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""By the suffix; the page has no other files."""

ATTRIBUTE = b'data-views="%s"'

FOLDER = files("web.observability.page") / "site"


@dataclass(frozen=True, slots=True)
class SiteFile:
    """One file.

    Attributes:
        content: all of it.
        media_type: as `Content-Type` has it.
        tag: as `ETag` has it; another content has another one.
    """

    content: bytes
    media_type: str
    tag: str

    @classmethod
    def make(cls, name: str, content: bytes) -> SiteFile:
        """Make one of its name and content."""
        media_type = MEDIA_TYPES[name[name.rindex(".") :]]
        return cls(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def with_views(index: SiteFile, views: str) -> SiteFile:
    """Return the page's document, which says which views there are.

    Args:
        index: as it is for a server.
        views: their names, with spaces between them.
    """
    if views == SERVER_VIEWS:
        return index
    return SiteFile.make(INDEX, index.content.replace(ATTRIBUTE % SERVER_VIEWS.encode(), ATTRIBUTE % views.encode()))


class SiteFiles:
    """All files of the page, by their paths below its folder.  They are read when the first one is asked for.

    Args:
        folder: which one.
    """

    def __init__(self, folder: Traversable = FOLDER) -> None:
        self._folder = folder

    @cached_property
    def by_name(self) -> dict[str, SiteFile]:
        """Every file; blocks while it reads them."""
        return {name: SiteFile.make(name, file.read_bytes()) for name, file in _walk(self._folder)}


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry
