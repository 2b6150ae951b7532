"""Rules of axe-core that a page breaks: it knows what keeps people out who cannot see it, or use no mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

THEMES: Final[tuple[Literal["dark", "light"], ...]] = ("dark", "light")


def broken_rules(page: Page) -> list[str]:
    """Return what breaks a rule, and where: of each a line that begins with the rule's name."""
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in Axe().run(page).response["violations"]
        for node in rule["nodes"]
    ]


def choose_theme(page: Page, theme: str) -> None:
    """Press the button of the themes until one is shown."""
    button = page.get_by_role("button", name="Theme")
    while theme not in button.inner_text():
        button.click()
