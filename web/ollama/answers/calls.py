"""Tool calls, which Ollama sends whole, with the arguments as an object."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NoReturn

from runtime.chat.parts import CallArguments, CallEnd, CallStart

if TYPE_CHECKING:
    from runtime.chat.parts import Part
    from web.ollama.answers.objects import Json


class CallGatherer:
    """Gathers the parts of an answer's calls until each is whole.  Its length is the characters that it holds.

    A call whose arguments are no JSON object, or that was not finished, cannot be shown as a call: nobody should run
    it.  Its arguments are text then.

    Args:
        request_id: of which the calls' ids are made.
    """

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._open: dict[int, tuple[str, list[str]]] = {}
        self._length = 0

    def __len__(self) -> int:
        """Return the number of characters that are held."""
        return self._length

    def add(self, part: Part) -> Json | str | None:
        """Take a part.

        Returns:
            The call that is whole now; a text where it is none; None where there is nothing to show yet.
        """
        match part:
            case CallStart(call, name):
                self._open[call] = (name, [])
            case CallArguments(call, text):
                self._open[call][1].append(text)
                self._length += len(text)
            case CallEnd(call):
                return self._close(call)
        return None

    def rest(self) -> str:
        """Return what was written of calls that were not finished."""
        texts = ["".join(pieces) for _, pieces in self._open.values()]
        self._open.clear()
        self._length = 0
        return "".join(texts)

    def _close(self, call: int) -> Json | str:
        name, pieces = self._open.pop(call)
        text = "".join(pieces)
        self._length -= len(text)
        try:
            arguments = json.loads(text or "{}", parse_constant=_refuse)
        except (ValueError, RecursionError):
            return text
        if not isinstance(arguments, dict):
            return text
        digest = hashlib.blake2b(f"{self._request_id}/{call}".encode(), digest_size=12)
        function = {"index": call, "name": name, "arguments": arguments}
        return {"id": f"call_{digest.hexdigest()}", "function": function}


def _refuse(constant: str) -> NoReturn:
    """Refuse what Python reads and JSON does not have: NaN and infinities."""
    raise ValueError(constant)
