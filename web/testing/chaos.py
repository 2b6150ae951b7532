"""A plan of faults from a TOML file, for a server that is to be seen failing: `cede serve --chaos plan.toml`.

    [[fault]]
    what = "device-error"
    step = 20
    layer = 3
    every = 50

Every key is a field of the fault's class in `runtime.testing.faults`, which says what it means.
"""

from __future__ import annotations

import ipaddress
import tomllib
from typing import TYPE_CHECKING, Annotated

import click
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from runtime.testing.faults import Fault, FaultPlan

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails

_FAULTS: TypeAdapter[list[Fault]] = TypeAdapter(
    list[Annotated[Fault, Field(discriminator="what")]], config=ConfigDict(extra="forbid")
)


class ChaosError(click.ClickException):
    """The plan cannot be used; the message says why."""


def plan_for(host: str, path: Path) -> FaultPlan:
    """The plan in a file, for a server on `host`.

    Raises:
        ChaosError: it is not to be used there, cannot be read, or is none.
    """
    refuse_unless_loopback(host)
    return load_plan(path)


def load_plan(path: Path) -> FaultPlan:
    """Read a plan.

    Raises:
        ChaosError: it cannot be read, or is not one.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ChaosError(f"{path}: {error}") from None
    unknown = content.keys() - {"fault"}
    if unknown:
        raise ChaosError(f"{path}: there is nothing like {', '.join(sorted(unknown))} in a plan, only [[fault]]")
    try:
        return FaultPlan(tuple(_FAULTS.validate_python(content.get("fault", []))))
    except ValidationError as error:
        wrong = [f"{_place(detail['loc'])}: {_fault(detail)}" for detail in error.errors()]
        raise ChaosError(f"{path}: {'; '.join(wrong)}") from None


def _fault(detail: ErrorDetails) -> str:
    """Return what is wrong there, in plain words."""
    match detail["type"]:
        case "union_tag_not_found":
            return "it does not say 'what'"
        case "union_tag_invalid":
            return f"there is no fault {detail['ctx']['tag']!r}; these are: {detail['ctx']['expected_tags']}"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return "this fault has no such key"
        case "missing":
            return "it is missing"
        case "value_error":
            return str(detail["ctx"]["error"])
        case _:
            return detail["msg"].replace("Input should", "it should").partition(", unable")[0]


def _place(location: tuple[int | str, ...]) -> str:
    """Return where in the file; the fault's tag, which pydantic puts behind its number, is not a key there."""
    if not location:
        return "fault"
    keys = [str(key) for key in location[2:]]
    return f"fault {int(location[0]) + 1}" + (f", {'.'.join(keys)}" if keys else "")


def refuse_unless_loopback(host: str) -> None:
    """Faults to order are for those who own the machine.

    Raises:
        ChaosError: others could reach the server.
    """
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ChaosError(f"a server with planned faults listens on loopback only, not on {host}")
