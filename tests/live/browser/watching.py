"""Record of what a page asks for, and of what it says on its console."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Watched:
    """A page's requests and complaints, from the making of this on.

    Attributes:
        asked: the addresses of its requests.
        said: what it wrote to the console, and the errors that nobody caught.

    Args:
        page: before it goes anywhere.
    """

    def __init__(self, page: Page) -> None:
        self.asked: list[str] = []
        self.said: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
