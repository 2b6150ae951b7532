"""The server that plays recordings: the page's files, and each stream the next recording."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from bench.page.recording import WireFrame
from bench.page.stand_in import StandIn
from web.observability.page.files import INDEX, SiteFiles

RECORDING = tuple(WireFrame(0.0, b"event: frame\ndata: %d\n\n" % number) for number in range(3))


def read(url: str) -> bytes:
    """The body of an answer."""
    with urlopen(url, timeout=60) as answer:
        content: bytes = answer.read()
        return content


def test_the_page_and_its_files_are_those_that_are_served() -> None:
    site = SiteFiles().by_name
    with StandIn() as stand_in:
        assert read(f"{stand_in.url}/") == site[INDEX].content
        assert read(f"{stand_in.url}/page/app.js") == site["app.js"].content
        assert json.loads(read(f"{stand_in.url}/v1/models"))["data"][0]["id"] == "stand-in"
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{stand_in.url}/page/gone.js", timeout=60)


@pytest.mark.parametrize("paced", [True, False])
def test_each_stream_plays_what_it_is_given_and_ends(paced: bool) -> None:
    with StandIn() as stand_in, ThreadPoolExecutor(1) as client:
        for count in (1, 2):
            answer = client.submit(read, f"{stand_in.url}/v1/events")
            stand_in.play(RECORDING, paced=paced)
            assert answer.result(60) == b"".join(frame.wire for frame in RECORDING)
            assert stand_in.streams == count


def test_a_stream_that_waits_for_a_recording_ends_with_the_server() -> None:
    with ThreadPoolExecutor(1) as client:
        with StandIn() as stand_in:
            answer = client.submit(read, f"{stand_in.url}/v1/events")
            stand_in.asked.wait(60)
        assert answer.result(60) == b""
