"""The short names."""

from __future__ import annotations

import re

import pytest

from runtime.store.catalogue import CATALOGUE, short_name_of
from runtime.store.names import PackageName, parse_name


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_short_name_stands_for_a_package_of_one_version_or_a_repository(name: str) -> None:
    source = parse_name(CATALOGUE[name].source)
    assert source is not None
    assert not isinstance(source, PackageName) or source.version is not None
    assert parse_name(name) is None
    assert name == name.lower()
    assert short_name_of(CATALOGUE[name].source) == name


@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m"])
def test_the_files_of_packages_have_a_size_and_a_hash(name: str) -> None:
    known = CATALOGUE[name]
    assert known.nbytes
    assert known.sha256 is not None
    assert re.fullmatch("[0-9a-f]{64}", known.sha256)


def test_what_is_not_listed_has_no_short_name() -> None:
    assert short_name_of("org/name") is None
