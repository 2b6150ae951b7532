"""What a request may leave out at `cede serve`, and Dynamo's server wants to have: its content type, and its model."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from web.cluster.door.exchange import Headers

CURLS = b"application/x-www-form-urlencoded"
"""The content type that curl gives to whatever it is to send."""

_FIRST_KEY = re.compile(rb'\s*\{(?=\s*")')


def as_json(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a body that is JSON, where nothing else is said of it."""
    kept = [(name, value) for name, value in headers if (name, value) != (b"content-type", CURLS)]
    return kept if any(name == b"content-type" for name, _ in kept) else [*kept, (b"content-type", b"application/json")]


def names_no_model(body: bytes) -> bool:
    """Return whether it is an object that has no such key, nor one that is further inside; it is not parsed."""
    return b'"model"' not in body and _FIRST_KEY.match(body) is not None


def with_model(body: bytes, model: str) -> bytes:
    """Return a body that names a model and did not before (`names_no_model`)."""
    return _FIRST_KEY.sub(lambda begun: begun[0] + f'"model": {json.dumps(model)}, '.encode(), body, count=1)


def only_model(listed: Any) -> str | None:  # noqa: ANN401  # JSON
    """Return the model of a list that has one; None where it has several, so that one has to be named, or none."""
    ids = [model["id"] for model in listed["data"]]
    return ids[0] if len(ids) == 1 else None
