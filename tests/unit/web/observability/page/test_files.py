"""The page's files: each has a type and a tag of its own, and asks nobody else for anything."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rows import every_row
from web.observability.page.files import INDEX, SiteFile, SiteFiles

SITE = SiteFiles().by_name
OURS = sorted(name for name in SITE if not name.startswith("vendor/"))
NAMED = re.compile(r"""(?:\bfrom|\bimport\(?|src=|href=)\s*["'](?P<path>[^"']+)["']""")


def named_by(name: str) -> set[str]:
    """The page's files that one of them names, by their paths below its folder."""
    text = SITE[name].content.decode()
    if name == INDEX:
        return {match["path"].removeprefix("page/") for match in NAMED.finditer(text) if match["path"][0] not in "#d"}
    folder = [] if "/" not in name else name.split("/")[:-1]
    found = set()
    for path in (match["path"] for match in NAMED.finditer(text) if name.endswith(".js")):
        place = list(folder)
        for part in path.split("/"):
            place = place[:-1] if part == ".." else [*place, *([part] if part != "." else [])]
        found.add("/".join(place))
    return {path for path in found if path.endswith(".js")}


def test_each_file_is_reached_from_the_page_and_none_is_missing() -> None:
    reached, new = {INDEX}, {INDEX}
    while new:
        new = set().union(*map(named_by, new)) - reached
        reached |= new
    licences = {name for name in SITE if name.endswith(".txt")}
    assert reached == SITE.keys() - licences


@every_row("name", OURS)
def test_no_file_of_ours_names_another_host_or_parses_text_as_html(name: str) -> None:
    text = SITE[name].content.decode().replace("http://www.w3.org/2000/svg", "")
    assert "://" not in text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


@every_row("name", OURS)
def test_no_file_of_ours_is_too_long(name: str) -> None:
    assert len(SITE[name].content.splitlines()) <= 350


def test_the_index_has_neither_scripts_nor_styles_in_it() -> None:
    text = SITE[INDEX].content.decode()
    assert text.count("<script") == text.count('<script type="module" src=')
    assert "<style" not in text
    assert not re.search(r"\s(?:style|on\w+)=", text)


def test_another_content_has_another_tag_and_the_same_the_same(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.js").write_bytes(b"1")
    (tmp_path / "b.js").write_bytes(b"1")
    (tmp_path / "c.css").write_bytes(b"2")
    read = SiteFiles(tmp_path).by_name
    assert read.keys() == {"inner/a.js", "b.js", "c.css"}
    assert read["inner/a.js"].tag == read["b.js"].tag != read["c.css"].tag
    assert read["c.css"] == SiteFile(b"2", "text/css; charset=utf-8", read["c.css"].tag)
