"""The examples of docs/use/embedding.md, each run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "use" / "embedding.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", range(4))
def test_an_example_of_the_page_runs_as_it_stands(example: int, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(EXAMPLES[example], f"{PAGE}, example {example}", "exec"), {"__name__": "example"})
    said = capsys.readouterr().out
    assert bool(said.strip()) == ("print" in EXAMPLES[example])


def test_there_is_no_other_example() -> None:
    assert len(EXAMPLES) == 4
