"""The line that Claude Code puts before its system prompt, which is not meant for the model.

It looks like `x-anthropic-billing-header: cc_version=2.1.37.fbe; cc_entrypoint=cli; cch=8bd3d;`, and its last field is
another one with each request.  A prompt's KV is found again by what it begins with, so with this line in it nothing of
a conversation would ever be found.  It is left out: in this form alone, and at the very beginning alone.
"""

from __future__ import annotations

import logging
import re

from runtime.common.log_text import literal

logger = logging.getLogger("cede.web")

_HEADER = re.compile(r"x-anthropic-billing-header:[^\n]*(?:\n|\Z)")


def without_billing_header(system: list[str]) -> list[str]:
    """Return the texts of a system prompt without that line; a text that consists of it alone is left out."""
    if not system or not (found := _HEADER.match(system[0])):
        return system
    logger.debug("left out of a system prompt: %s", literal(found[0]))
    rest = system[0][found.end() :]
    return [rest, *system[1:]] if rest else system[1:]
