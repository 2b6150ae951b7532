"""All options, collected from the configs on whose fields they are defined (`runtime.common.options`), and their names.

What an option is called is derived from its field: `hold_seconds` of the cache, which says that it is `kv-hold`, is
`--kv-hold` on the command line, `CEDE_KV_HOLD` in the environment and `kv-hold` in a file.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any

from actors.config import EngineConfig
from actors.kv.config import CacheConfig, TierOptions
from runtime.checkpoint.sampling_defaults import SamplingOptions
from runtime.common.options import Option
from runtime.common.units import GIB, KIB, MIB
from runtime.loading.options import LoadOptions
from web.process.limits import Limits
from web.process.options import Access, Cluster, Diagnostics, Listening, ModelChoice, Patience, StateOptions, Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "CEDE_"

SECTIONS: dict[str, tuple[type, ...]] = {
    "Model": (ModelChoice, LoadOptions),
    "Requests and steps": (EngineConfig,),
    "Sampling of requests that do not say": (SamplingOptions,),
    "Network": (Listening, Limits),
    "Access": (Access,),
    "Answers": (Wire,),
    "KV outside the slots": (TierOptions, CacheConfig),
    "Stored answers": (StateOptions,),
    "Operation": (Patience, Diagnostics),
    "Cluster": (Cluster,),
}

Written = str | int | float | list[str]
"""A value as it is written in a file."""


@dataclass(frozen=True, slots=True)
class Definition:
    """An option with its names, its type and its default.

    Attributes:
        section: under which it is listed.
        group: the config that has it.
        field: of that config.
        kind: of its values other than None: int, float, str, Path or an enumeration.
        many: whether there may be several, in a tuple.
        default: as the config has it.
        option: what the config says of it.
    """

    section: str
    group: type
    field: str
    kind: type
    many: bool
    default: Any
    option: Option

    @property
    def key(self) -> str:
        """Name in a file."""
        return self.option.name or self.field.replace("_", "-")

    @property
    def parameter(self) -> str:
        """Name that click uses."""
        return self.key.replace("-", "_")

    @property
    def flags(self) -> list[str]:
        """All its names on the command line, its own first."""
        return [f"--{self.key}", *self.option.aliases]

    @property
    def variable(self) -> str:
        """Name in the environment."""
        return PREFIX + self.parameter.upper()

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may be given; empty where any text, or a number, may."""
        if issubclass(self.kind, Enum):
            return (*self.option.none, *(member.value for member in self.kind))
        return self.option.words

    @property
    def none_is_written(self) -> bool:
        """Return whether a word for None may be given; among texts and paths it would be one of them."""
        return bool(self.option.none) and self.kind not in (str, Path)

    @property
    def default_text(self) -> str:
        """Default, for people."""
        written = self.write(self.default)
        return (", ".join(written) or "none") if isinstance(written, list) else str(written)

    def write(self, value: Any) -> Written:  # noqa: ANN401  # of whatever kind the option is
        """A value as it is written in a file, from which the same value is read."""
        if value is None:
            return self.option.none[0]
        if self.many:
            return [str(item) for item in value]
        if self.option.unit == "bytes":
            return _size(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, Enum | Path):
            return str(value)
        written: Written = value
        return written


def _size(value: int) -> str | int:
    """Bytes in the largest unit that leaves nothing over."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if value and value % unit == 0:
            return f"{value // unit}{name}"
    return value


def _definitions_of(section: str, group: type) -> Iterator[Definition]:
    hints = typing.get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        hint = hints[field.name]
        if typing.get_origin(hint) is not Annotated:
            continue
        kinds = typing.get_args(hint.__origin__) or (hint.__origin__,)
        many = typing.get_origin(hint.__origin__) is tuple
        kind = next(kind for kind in kinds if kind is not NoneType)
        for option in hint.__metadata__:
            if isinstance(option, Option):
                yield Definition(section, group, field.name, kind, many, field.default, option)


DEFINITIONS: dict[str, Definition] = {
    definition.key: definition
    for section, groups in SECTIONS.items()
    for group in groups
    for definition in _definitions_of(section, group)
}
"""All options by their keys, in the order in which they are listed."""

SERVER: tuple[str, ...] = tuple(key for key, definition in DEFINITIONS.items() if definition.group is not Cluster)
"""Those of a server that is not in a cluster."""

WORKER: tuple[str, ...] = tuple(key for key in DEFINITIONS if key != "control-port")
"""Those of one that is; control is the front door's."""
