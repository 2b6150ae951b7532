"""A test that walks a table fails as one test for each row would, and names the rows that did."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.rows import every_row

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

    with pytest.raises(AssertionError, match="4 of 4 rows") as caught:
        is_a_number()
    told = [line for line in str(caught.value).splitlines() if line.startswith("row ")]
    assert [line.partition(": ")[0] for line in told] == [f"row {n}, {{'number'" for n in range(4)]
    assert "row 1, {'number': '2'}: Failed: DID NOT RAISE" in told[1]
    assert isinstance(caught.value.__cause__, ValueError)


async def test_so_are_those_of_a_test_that_awaits() -> None:
    @every_row("row", ["x", "y"])
    async def sleeps(row: str) -> None:
        await trio.lowlevel.checkpoint()
        assert row == "x"

    with pytest.raises(AssertionError, match="1 of 2 rows"):
        await sleeps()
