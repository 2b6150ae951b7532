r"""Control of a request over its own fate, in an annotation: the front door lets no other field of ours through.

"nvext": {"annotations": ["cede:{\"group\": \"agent/1\", \"supersede\": \"editor-1\"}"]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.control import NO_CONTROL, Control
from runtime.errors import RequestError
from web.bodies.strict_model import parse_model
from web.generation.control.fields import ControlFields

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "cede:"
KNOWN = frozenset({"group", "supersede"})
"""The fields that mean something across workers.  What a hang-up means is the front door's, which tells of each at
once; a race that two workers decide could have two winners; and `after` and `warm` are about one worker's slots."""


def control_of(annotations: Sequence[str]) -> Control:
    """Return what the annotation of ours says, if there is one.

    Raises:
        RequestError: there are several, or it is not valid, or asks for what a cluster does not do.
    """
    given = [annotation.removeprefix(PREFIX) for annotation in annotations if annotation.startswith(PREFIX)]
    if not given:
        return NO_CONTROL
    if len(given) > 1:
        raise RequestError(f"There should be one annotation '{PREFIX}…', with all of the fields.", param="annotations")
    fields = parse_model(ControlFields, given[0].encode())
    for name, value in fields:
        if value is not None and name not in KNOWN:
            message = f"'cede.{name}' is not supported in a cluster: ask a worker at its own address."
            raise RequestError(message, param=f"cede.{name}")
    return Control(group=fields.group, supersede=fields.supersede)
