"""Meaning of a model's name, read from the name alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.utils import canonicalize_name, canonicalize_version

_HUB_PREFIXES = ("https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/", "hf:")
_HUB = re.compile(r"(?P<repository>[\w-][\w.-]*/[\w.-]+)(?::(?P<tag>[\w-][\w./+-]*))?", re.ASCII)
_PACKAGE = re.compile(
    r"(?P<project>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?:==(?P<version>[a-z0-9][a-z0-9.!+_-]*))?",
    re.ASCII | re.IGNORECASE,
)
PACKAGE_PREFIX = "pypi:"


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository of the Hugging Face hub, or one GGUF file in it.

    Attributes:
        repository: `org/name`.
        tag: a quantisation such as `Q4_K_M`, or the name of a file; None for what the repository mainly holds.
    """

    repository: str
    tag: str | None = None

    def __str__(self) -> str:
        """Write it as a user would."""
        return self.repository if self.tag is None else f"{self.repository}:{self.tag}"


@dataclass(frozen=True, slots=True)
class PackageName:
    """A project of a package index.

    Attributes:
        project: in the normal form of PEP 503.
        version: the one that is wanted; None for any.
    """

    project: str
    version: str | None = None

    def __str__(self) -> str:
        """Write it as a user would."""
        return PACKAGE_PREFIX + self.requirement

    def means(self, found: PackageName) -> bool:
        """Return whether a package that was found is this one; any version is if none is wanted; 1.0 is 1.0.0."""
        if self.project != found.project or self.version is None:
            return self.project == found.project
        return canonicalize_version(self.version) == canonicalize_version(found.version or "")

    @property
    def requirement(self) -> str:
        """The same as pip's requirement."""
        return self.project if self.version is None else f"{self.project}=={self.version}"


def parse_name(name: str) -> HubName | PackageName | None:
    """Return what a name stands for; None for one that is of neither form."""
    if name.startswith(PACKAGE_PREFIX):
        match = _PACKAGE.fullmatch(name.removeprefix(PACKAGE_PREFIX))
        return match and PackageName(canonicalize_name(match["project"]), match["version"])
    for prefix in _HUB_PREFIXES:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    match = _HUB.fullmatch(name)
    return match and HubName(match["repository"], match["tag"])
