"""A test that walks a table fails as one test for each row would, and names the rows that did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from tests.rows import every_row

if TYPE_CHECKING:
    from pathlib import Path

walked = list[tuple[int, str]]()


@every_row("number", [1, 2])
@every_row("letter, also", [("a", "a"), ("b", "b")])
def test_each_row_is_walked_with_a_folder_and_patches_of_its_own(
    number: int, letter: str, also: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch(exist_ok=False)
    assert not hasattr(trio, "left")
    monkeypatch.setattr(trio, "left", number, raising=False)
    walked.append((number, letter))
    assert letter == also
    assert walked == [(1, "a"), (1, "b"), (2, "a"), (2, "b")][: len(walked)]


def test_all_rows_that_fail_are_told() -> None:
    @every_row("number", ["one", "2", "three", 3])
    def is_a_number(number: str) -> None:
        with pytest.raises(TypeError):
            assert int(number) == 2

    with pytest.raises(BaseExceptionGroup, match="4 of 4 rows") as caught:
        is_a_number()
    failed = caught.value.exceptions
    assert [type(each) for each in failed] == [ValueError, pytest.fail.Exception, ValueError, AssertionError]
    assert [each.__notes__[-1] for each in failed][1:3] == ["row 1: {'number': '2'}", "row 2: {'number': 'three'}"]


async def test_so_are_those_of_a_test_that_awaits() -> None:
    @every_row("row", ["x", "y"])
    async def sleeps(row: str) -> None:
        await trio.lowlevel.checkpoint()
        assert row == "x"

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows"):
        await sleeps()
