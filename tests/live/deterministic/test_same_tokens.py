"""A server that is asked for the same tokens in bfloat16, whoever else is served: over sockets, with hang-ups.

It is the installed one, since a tree that nobody has built has no kernels.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.live.http_client import Http1, completion, prompt
from tests.live.server import PATIENCE, Server, command, environment

TOKENS = 60
LENGTHS = (300, 33, 7)  # of the prompts: two with more rows than the kernels take at once
FLAGS = ("--native", "auto", "--dtype", "bfloat16", "--quantize", "int8", "--deterministic", "on")


KERNELS = "from runtime.devices.native.kernels import open_kernels; print(open_kernels(1) is not None)"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of three slots that drafts."""
    ask = [sys.executable, "-P", "-c", KERNELS]
    has = subprocess.run(ask, env=environment(installed=True), capture_output=True, text=True, check=False)
    if has.stdout.strip() != "True":
        pytest.skip("cede is not installed, or without kernels")
    with Server("--slots", "3", "--speculate", "mtp", *FLAGS, installed=True) as server:
        server.wait_ready()
        server.wait_log("all rows of")
        yield server


def test_tokens_are_those_of_a_solo_run(server: Server) -> None:
    alone = []
    for length in LENGTHS:
        server.wait_idle()
        with Http1(server, completion(prompt(length), TOKENS, speculate=False, cache_prompt=False)) as client:
            alone.append(client.read_all())
    for leaves in (1, 5, 20):  # each time another of what it left is kept, and the others are at other places
        with Http1(server, completion(prompt(LENGTHS[0]), TOKENS)) as leaving:
            together = [Http1(server, completion(prompt(length), TOKENS)) for length in LENGTHS]
            leaving.read_tokens(leaves)
        for client, expected in zip(together, alone, strict=True):
            with client:
                assert client.read_all() == expected, leaves
    server.wait_idle()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--native", "off"), "--native off leaves out"),
        (("--native", "auto", "--tensor-parallel", "2"), "--tensor-parallel 2"),
    ],
)
def test_where_it_cannot_be_had_the_server_does_not_start(flags: tuple[str, ...], why: str) -> None:
    done = subprocess.run(
        command("serve", "--port", "0", "--device", "cpu", "--deterministic", "on", *flags),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1
    assert "--deterministic on: " in done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr
