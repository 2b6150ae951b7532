"""A word for whoever has no Dynamo."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from web.cluster import settings
from web.cluster.settings import ClusterUnavailable, require_dynamo


def test_without_dynamo_it_is_said_what_to_install_and_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(settings, "find_spec", nothing)
    with pytest.raises(ClusterUnavailable, match=r"pip install 'cede\[cluster\]'.*smg launch"):
        require_dynamo()


def test_with_dynamo_nothing_is_said() -> None:
    if importlib.util.find_spec("dynamo") is None:
        pytest.skip("cede[cluster] is not installed")
    require_dynamo()
