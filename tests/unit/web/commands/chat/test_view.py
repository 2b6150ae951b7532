"""An answer on a screen, as pyte shows it."""

from __future__ import annotations

import io

import pyte
import pytest
from rich.console import Console

from web.commands.chat.view import THOUGHT_LINES, AnswerView
from web.commands.client.answer import Delta

COLUMNS, ROWS = 40, 12


class Screen:
    """A small terminal."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=True, width=COLUMNS, height=ROWS, legacy_windows=False)

    def lines(self) -> list[str]:
        """Return what stands there, and above it what was scrolled out."""
        screen = pyte.HistoryScreen(COLUMNS, ROWS, history=1000)
        pyte.Stream(screen).feed(self.file.getvalue().replace("\n", "\r\n"))
        above = ["".join(row[x].data for x in range(COLUMNS)) for row in screen.history.top]
        lines = [line.rstrip() for line in [*above, *screen.display]]
        return lines[: max((place for place, line in enumerate(lines, 1) if line), default=0)]


@pytest.fixture(autouse=True)
def every_piece_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.commands.chat.view.FRAME_SECONDS", 0)


async def test_each_line_of_a_long_answer_stands_there_once() -> None:
    screen = Screen()
    text = "".join(f"Paragraph {n}\n\n" for n in range(30))
    text += "```\n" + "".join(f"line {n}\n" for n in range(40)) + "```\nEnd"
    with AnswerView(screen.console) as view:
        for start in range(0, len(text), 7):
            await view.show(Delta(text[start : start + 7]))
    words = [line.strip() for line in screen.lines() if line.strip()]
    assert words == [*(f"Paragraph {n}" for n in range(30)), *(f"line {n}" for n in range(40)), "End"]


async def test_of_a_block_that_is_longer_than_the_screen_the_newest_lines_are_seen() -> None:
    screen = Screen()
    with AnswerView(screen.console) as view:
        for n in range(40):
            await view.show(Delta(f"line {n}\n" if n else "```\n"))
            assert n == 0 or any(line.strip() == f"line {n}" for line in screen.lines()[-3:])


async def test_thoughts_are_a_few_lines_and_then_one() -> None:
    screen = Screen()
    with AnswerView(screen.console) as view:
        for n in range(20):
            await view.show(Delta(reasoning=f"thought {n}\n"))
        shown = screen.lines()
        assert shown[-1] == "thought 19"
        assert len([line for line in shown if line]) <= THOUGHT_LINES
        await view.show(Delta("Answer"))
    (first, second) = [line for line in screen.lines() if line]
    assert first.startswith("thought for ")
    assert second == "Answer"


async def test_what_a_model_says_is_text_and_no_command_to_the_terminal() -> None:
    screen = Screen()
    with AnswerView(screen.console) as view:
        await view.show(Delta("a\x1b[2Jb [red]c[/red] \x07"))
    assert "\x1b[2J" not in screen.file.getvalue()
    assert "[red]c[/red]" in screen.lines()[0]


async def test_an_answer_that_is_broken_off_leaves_what_came_and_the_cursor() -> None:
    screen = Screen()
    with pytest.raises(ZeroDivisionError):
        await _half_an_answer(screen)
    assert [line for line in screen.lines() if line] == ["Half a sen"]
    shown = screen.file.getvalue()
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


async def _half_an_answer(screen: Screen) -> None:
    with AnswerView(screen.console) as view:
        await view.show(Delta("Half a sen"))
        raise ZeroDivisionError
