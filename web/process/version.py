"""Which cede this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache  # it is read from a file
def cede_version() -> str:
    """Return the version of cede; 0 where it runs from its source and was not installed."""
    try:
        return version("cede")
    except PackageNotFoundError:
        return "0"
