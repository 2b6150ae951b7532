"""Output to a terminal or a pipe."""

from __future__ import annotations

import os
import pty
import termios

import pytest
import trio

from web.commands.client.terminal import harmless, quiet_keys, write


def test_what_a_model_says_cannot_steer_a_terminal() -> None:
    assert harmless("a\tb\nc\r\nd \x1b[2J\x9b2J\x07é") == "a\tb\nc\nd \N{REPLACEMENT CHARACTER}[2J" + (
        "\N{REPLACEMENT CHARACTER}2J\N{REPLACEMENT CHARACTER}é"
    )


async def test_a_long_text_is_written_whole_though_the_reader_is_slow() -> None:
    reading, writing = os.pipe()
    text = "€" * 100_000
    read = bytearray()

    def read_all() -> None:
        while data := os.read(reading, 5000):
            read.extend(data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, read_all)
        await write(writing, text)
        os.close(writing)
    os.close(reading)
    assert read.decode() == text


async def test_a_reader_that_has_gone_is_told_of() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await write(writing, "text")
    os.close(writing)


@pytest.mark.parametrize("signals", [True, False])
def test_a_terminal_gets_its_settings_back_whatever_happens(signals: bool) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with quiet_keys(theirs, signals=signals):
        flags = termios.tcgetattr(theirs)[3]
        assert not flags & (termios.ECHO | termios.ICANON)
        assert bool(flags & termios.ISIG) == signals
    assert termios.tcgetattr(theirs) == before
    with pytest.raises(ZeroDivisionError), quiet_keys(theirs, signals=signals):
        raise ZeroDivisionError
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
