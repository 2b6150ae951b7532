"""Names of models, and what they stand for."""

from __future__ import annotations

from runtime.store.names import HubName, PackageName, parse_name
from tests.rows import every_row


@every_row(
    "name, meant",
    [
        ("org/name", HubName("org/name")),
        ("org/na.me-1B", HubName("org/na.me-1B")),
        ("org/name:Q4_K_M", HubName("org/name", "Q4_K_M")),
        ("org/name:sub/file-00001-of-00002.gguf", HubName("org/name", "sub/file-00001-of-00002.gguf")),
        ("hf:org/name", HubName("org/name")),
        ("hf.co/org/name:q8_0", HubName("org/name", "q8_0")),
        ("huggingface.co/org/name", HubName("org/name")),
        ("https://huggingface.co/org/name", HubName("org/name")),
        ("pypi:Some_Project", PackageName("some-project")),
        ("pypi:some-project==1.0.post1", PackageName("some-project", "1.0.post1")),
    ],
)
def test_a_name_is_read(name: str, meant: object) -> None:
    assert parse_name(name) == meant


@every_row(
    "name",
    [
        "",
        "nowhere",
        "../name",
        "./org/name",
        "org/name/more",
        "org/name:",
        "org/name:../up",
        "org/name\n",
        "pypi:",
        "pypi:--index-url=http://evil.test",
        "pypi:project; rm",
        "pypi:project>=1",
        "pypi:project==1 --pre",
        "pypi:../project",
    ],
)
def test_what_is_no_name_is_none(name: str) -> None:
    assert parse_name(name) is None


@every_row("name", ["org/name", "org/name:Q4_0", "pypi:project", "pypi:project==2.0"])
def test_a_name_is_written_as_it_was_read(name: str) -> None:
    assert str(parse_name(name)) == name
