"""One test for all rows of a table, which names every row that failed."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., Any]

LONGEST = 1000
"""Characters that are told of what is wrong with a row."""
BRIEF = reprlib.Repr()
BRIEF.maxother = BRIEF.maxstring = 120


def every_row(names: str, rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Give a test each row of a table, as `pytest.mark.parametrize` does, but all of them in one test case.

    It is for rows that are cheap.  They share the test's fixtures, but for `tmp_path` and `monkeypatch`.

    Args:
        names: of the parameters that a row has values for, with commas between them.
        rows: a value, or one for each of several parameters.
    """
    parameters, table = names.split(", "), list(rows)

    def walking(test: Test) -> Test:
        def calls(wrong: dict[str, BaseException], fixtures: dict[str, Any]) -> Iterator[Callable[[], Any]]:
            for number, row in enumerate(table):
                values = dict(zip(parameters, row if len(parameters) > 1 else [row], strict=True))
                yield functools.partial(_told, wrong, number, values, fixtures)
            said = [f"{row}: {type(why).__name__}: {str(why)[:LONGEST]}" for row, why in wrong.items()]
            for first in wrong.values():
                raise AssertionError("\n".join([f"{len(wrong)} of {len(table)} rows", *said])) from first

        @functools.wraps(test)
        def walk(**fixtures: Any) -> None:  # noqa: ANN401
            for told in calls({}, fixtures):
                with told() as arguments:
                    test(**arguments)

        @functools.wraps(test)
        async def walk_async(**fixtures: Any) -> None:  # noqa: ANN401
            for told in calls({}, fixtures):
                with told() as arguments:
                    await test(**arguments)

        walker: Any = walk_async if inspect.iscoroutinefunction(test) else walk
        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in parameters]
        walker.__signature__ = signature.replace(parameters=others)  # by which pytest knows the fixtures
        return walker  # type: ignore[no-any-return]

    return walking


@contextmanager
def _told(
    wrong: dict[str, BaseException], number: int, values: dict[str, Any], fixtures: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of a row, and note what it raises."""
    own = dict[str, Any]()
    if "tmp_path" in fixtures:
        own["tmp_path"] = fixtures["tmp_path"] / str(number)
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as monkeypatch:
        if "monkeypatch" in fixtures:
            own["monkeypatch"] = monkeypatch
        try:
            yield fixtures | values | own
        except (Exception, pytest.fail.Exception) as why:
            wrong[f"row {number}, {BRIEF.repr(values)}"] = why
