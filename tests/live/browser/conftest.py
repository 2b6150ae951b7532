"""The browser, where pages come from, and servers that know of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.browser.chromium import Chromium, find_chromium
from tests.live.browser.pages import PageServer
from tests.live.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A browser."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("there is no Chromium here (`apt-get install chromium`)")
    with Chromium(executable) as browser:
        yield browser


@pytest.fixture(scope="session")
def pages() -> Iterator[PageServer]:
    """Yield where pages of other origins come from."""
    with PageServer() as server:
        yield server


@pytest.fixture(scope="session")
def friendly(pages: PageServer) -> Iterator[Server]:
    """A server that one origin may ask."""
    with Server("--slots", "2", "--allow-origin", pages.friend) as server:
        yield server
