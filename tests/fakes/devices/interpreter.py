"""Triton as an interpreter, for the process that imports this before anything else imports Triton.

It decides when it is imported, and PyTorch's compiler imports it as well, so `tests/conftest.py` is first.
"""

from __future__ import annotations

import pytest

__all__ = ["triton"]

try:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_INTERPRET", "1")  # not for good: servers that tests start shall not see it
        import triton

        environment.setattr(triton.knobs, "propagate_env", False)
        triton.knobs.runtime.interpret = True  # read later on, as well
except ImportError:
    triton = None
