"""The blocks of the pages about clients, which tests run as they stand."""

from __future__ import annotations

import json
import re
from functools import cache
from textwrap import dedent

from tests.live.server import ROOT

ADDRESS = "http://127.0.0.1:8000"
"""Of the server in every block."""


@cache
def sections(page: str) -> dict[str, str]:
    """The texts of a page's sections, by their headings."""
    parts = re.split(r"^##+ (.+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def indented(text: str) -> str:
    """The first block of a section that is indented, without its indent."""
    found = re.search(r"^ {4}\S.*\n(?:(?: {4}.*)?\n)*", text, re.MULTILINE)
    assert found is not None
    return f"{dedent(found[0]).rstrip()}\n"


def fenced(page: str, language: str) -> list[str]:
    """Every block of a page in a language."""
    whole = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", whole, re.MULTILINE | re.DOTALL)


def exported(block: str) -> dict[str, str]:
    """The variables that a block for a shell exports."""
    lines = re.findall(r"^export (.+)$", block, re.MULTILINE)
    return dict(word.split("=", 1) for line in lines for word in line.split())


def with_fields(block: str, **fields: object) -> str:
    """A block of JSON, an object, with fields that a test wants beside those of the page."""
    return json.dumps(json.loads(block) | fields)
