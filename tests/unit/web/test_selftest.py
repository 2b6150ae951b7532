"""The self-test notices where the CPU computes in place of MPS."""

from __future__ import annotations

import warnings

import pytest

import web.selftest
from runtime.selftest.findings import Mismatch, NotHere
from web.selftest import check_fallback


async def test_computing_on_the_cpu_in_place_of_mps_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(web.selftest.FALLBACK, raising=False)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.warn("something else", stacklevel=1)
        assert await check_fallback("mps", warned) == {"warnings": 1}
        warnings.warn("aten::x is not supported on the MPS backend and will fall back to run on the CPU", stacklevel=1)
        with pytest.raises(Mismatch, match="aten::x"):
            await check_fallback("mps", warned)
    monkeypatch.setenv(web.selftest.FALLBACK, "1")
    with pytest.raises(Mismatch, match="is set"):
        await check_fallback("mps", [])
    with pytest.raises(NotHere):
        await check_fallback("cpu", [])
