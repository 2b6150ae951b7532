"""No variable of cede's but those that a test sets."""

from __future__ import annotations

import os

import pytest

from web.commands.options.definitions import PREFIX


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set some."""
    for name in list(os.environ):
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)
