"""Tool calls, which Ollama sends whole, with the arguments as an object."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from runtime.chat.parts import CallArguments, CallStart
from web.bodies.json_encoding import RawJson

if TYPE_CHECKING:
    from runtime.chat.parts import Part
    from web.ollama.answers.objects import Json


class CallShapes:
    """Makes Ollama's objects of an answer's calls, of which only whole ones come.

    Args:
        request_id: of which the calls' ids are made.
    """

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._name = ""

    def of(self, part: Part) -> Json | None:
        """Return the call whose arguments a part has; None for the other parts of a call."""
        if isinstance(part, CallStart):
            self._name = part.name
        if not isinstance(part, CallArguments):
            return None
        digest = hashlib.blake2b(f"{self._request_id}/{part.call}".encode(), digest_size=12)
        function = {"index": part.call, "name": self._name, "arguments": RawJson(part.text)}
        return {"id": f"call_{digest.hexdigest()}", "function": function}
