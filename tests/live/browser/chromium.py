"""A headless Chromium, driven by Playwright from a thread of its own.

Playwright's synchronous interface belongs to the thread that it was started in, and runs a loop there.  So one thread
has it all, and tests hand it functions of a page: a plain test calls `visit`, a Trio test awaits
`trio.to_thread.run_sync(chromium.visit, function)`.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self, TypeVar

from playwright.sync_api import expect, sync_playwright

from tests.live.server import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from playwright.sync_api import Browser, Page, Playwright

T = TypeVar("T")

expect.set_options(timeout=PATIENCE * 1e3)

REBOUND = "evil.example"
"""A name that the browser resolves to this machine, on any port."""

FLAGS = (
    "--disable-dev-shm-usage",  # which is small in containers
    "--disable-background-networking",
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def find_chromium() -> str | None:
    """Return where a Chromium or a Chrome is installed; None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


class Chromium:
    """A browser process, from making it to the end of the scope.

    Args:
        executable: the program.
    """

    def __init__(self, executable: str) -> None:
        self._thread = ThreadPoolExecutor(1, "chromium")
        self._playwright, self._browser = self._thread.submit(_start, executable).result(PATIENCE)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End the browser, whatever its pages are doing."""
        self._thread.submit(self._end).result(PATIENCE)
        self._thread.shutdown()

    def visit(self, function: Callable[[Page], T]) -> T:
        """Return what a function returns of a page that shares nothing with any other, and is closed after it."""
        return self._thread.submit(self._visit, function).result(2 * PATIENCE)

    def _visit(self, function: Callable[[Page], T]) -> T:
        with self._browser.new_context() as context:
            context.set_default_timeout(PATIENCE * 1e3)
            return function(context.new_page())

    def _end(self) -> None:
        self._browser.close()
        self._playwright.stop()


def _start(executable: str) -> tuple[Playwright, Browser]:
    playwright = sync_playwright().start()
    return playwright, playwright.chromium.launch(executable_path=executable, args=FLAGS, chromium_sandbox=False)
