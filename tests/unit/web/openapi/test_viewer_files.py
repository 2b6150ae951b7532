"""The vendored files are those that were published."""

from __future__ import annotations

import hashlib

import pytest

from web.openapi.viewer_files import DIGESTS, FOLDER, RAPIDOC, read_file


@pytest.mark.parametrize("name", DIGESTS)
def test_nobody_has_edited_a_file_that_is_not_ours(name: str) -> None:
    assert hashlib.sha256(read_file(name)).hexdigest() == DIGESTS[name]


def test_each_file_is_ours_or_vendored() -> None:
    assert set(RAPIDOC.taken.values()) == DIGESTS.keys()
    assert {file.name for file in FOLDER.iterdir()} == DIGESTS.keys() | {"docs.html", "docs.js"}
