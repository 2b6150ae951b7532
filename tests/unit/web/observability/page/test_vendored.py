"""The page's libraries are those that were published."""

from __future__ import annotations

from itertools import chain

from tests.rows import every_row
from web.observability.page.files import SiteFiles
from web.observability.page.vendored import DIGESTS, LIBRARIES, VENDOR, digest


@every_row("name", DIGESTS)
def test_nobody_has_edited_a_file_that_is_not_ours(name: str) -> None:
    assert digest(VENDOR / name) == DIGESTS[name]


def test_each_file_is_of_a_library_that_is_named() -> None:
    assert set(chain.from_iterable(library.taken.values() for library in LIBRARIES)) == DIGESTS.keys()
    there = {name.removeprefix("vendor/") for name in SiteFiles().by_name if name.startswith("vendor/")}
    assert there == DIGESTS.keys()
