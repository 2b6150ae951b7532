"""Choices of `cede cluster` from flags, variables and a file; and values of options that are not the defaults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from runtime.common.options import UNBOUNDED
from web.commands.cluster import cluster
from web.commands.options.chosen import Chosen
from web.commands.options.definitions import Definition


@dataclass(frozen=True)
class Sample:
    """A value of an option, in every form.

    Attributes:
        value: in the option's type.
        texts: of the flag, which is given once for each.
        toml: as a file has it.
    """

    value: Any
    texts: tuple[str, ...]
    toml: str

    @property
    def variable(self) -> str:
        """As the environment has it."""
        return " ".join(self.texts)


def sample(definition: Definition, folder: Path) -> Sample:
    """A value that is allowed, and not the default; files and folders are made in `folder`."""
    option = definition.option
    if definition.many:
        return Sample(("one", "two"), ("one", "two"), '["one", "two"]')
    if definition.words:
        word = definition.words[-1] if definition.default != definition.words[-1] else definition.words[-2]
        return _text(word, definition.kind(word) if issubclass(definition.kind, Enum) else word)
    if option.unit == "bytes":
        return _text("3MiB", 3 * 2**20)
    if definition.kind is Path:
        path = folder / definition.key
        path.mkdir() if option.unit == "folder" else path.write_text("")
        return _text(str(path), path)
    if option.allowed is not None:
        number = _number(definition)
        return Sample(number, (str(number),), str(number))
    return _text("some/thing", "some/thing")


def _text(text: str, value: object) -> Sample:
    return Sample(value, (text,), f'"{text}"')


def _number(definition: Definition) -> float:
    allowed = definition.option.allowed
    assert allowed is not None
    most = allowed.least + 7 if allowed.most in (UNBOUNDED, math.inf) else allowed.most
    return int(most) if allowed.whole else float(most)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """These variables beside those that are set."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def chosen(
    arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None, config: Path | None = None
) -> Chosen:
    """The options of `cede cluster`, which are all.  Raises click.UsageError."""
    flags = [] if config is None else ["--config", str(config)]
    with environment(variables or {}):
        ctx = cluster.make_context("cluster", [*flags, *arguments])
        return Chosen.of(ctx, ctx.params["named"])
