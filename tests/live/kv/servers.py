"""Servers with KV in memory and on disk; asking them, and looking into what they keep.

Greedy, in float32, with the embedded model.  What a request should say is asked of a server that keeps nothing, with
`cache_prompt` off.  A block of that model's KV takes 320 KiB.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.disk.folder import roots
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, wait_for
from web.commands.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]


CHUNK = 64  # tokens; fixed, so that a prompt is always read in the same pieces
FIXED = ("--chunk-tokens", str(CHUNK), "--device", "cpu", "--dtype", "float32")
ONE_SLOT_ON_DISK = ("--slots", "1", "--kv-ram", "0")


class Starter:
    """Starts servers whose logs lie in one folder, and ends those that are left."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack

    def __call__(self, *flags: str) -> ForkedServer:
        """Start one with these flags."""
        return self._stack.enter_context(ForkedServer(self._folder, *FIXED, *flags))


def plain(ids: Sequence[int], max_tokens: int = 12, **fields: Any) -> Json:  # noqa: ANN401
    """A completion that is answered whole."""
    return completion(list(ids), max_tokens, stream=False, **fields)


def ask(server: Server, body: Json, path: str = COMPLETIONS) -> Json:
    """Return the answer to one completion that is sent whole."""
    with Http1(server, body, path) as client:
        return answer_of(client)


def answer_of(client: Http1) -> Json:
    """Return the answer to a request that is served."""
    status, _, answer = client.answer()
    assert status == 200, answer
    answered: Json = answer
    return answered


def tokens(answer: Json) -> list[int]:
    """Return the ids of an answer's first choice."""
    said: list[int] = answer["choices"][0]["token_ids"]
    return said


def cached(answer: Json) -> int:
    """The prompt's tokens that were not computed, after a look at whether the answer's two accounts of it agree."""
    usage, timings = answer["usage"], answer["timings"]
    count: int = usage["prompt_tokens_details"]["cached_tokens"]
    assert timings["cache_n"] == count
    assert timings["prompt_n"] == usage["prompt_tokens"] - count
    return count


def in_blocks(count: int) -> int:
    """The tokens in complete blocks of a prefix of `count`."""
    return count // BLOCK_TOKENS * BLOCK_TOKENS


def reusable(ids: Sequence[int]) -> int:
    """The tokens of a prompt that blocks can bring; its last is always computed."""
    return in_blocks(len(ids) - 1)


def cache_statistics(server: Server) -> Json:
    """Return what the server says of its prefix cache."""
    statistics: Json = server.get("/v1/statistics")["manager"]["cache"]
    return statistics


def disk_statistics(server: Server) -> Json:
    """Return what the server says of its disk tier."""
    statistics: Json = cache_statistics(server)["disk"]
    return statistics


def wait_saved(server: Server) -> None:
    """Wait until nothing is left to be kept, nor to be written."""

    def saved() -> bool:
        statistics = cache_statistics(server)
        return statistics["unsaved_blocks"] == 0 and not (statistics["disk"] or {}).get("queued")

    wait_for(saved, "the blocks to be kept")


def hits_of(server: Server, body: Json) -> tuple[Json, dict[str, int]]:
    """An answer, and how many cached tokens came from where meanwhile."""
    before: Counter[str] = Counter(cache_statistics(server)["hits"])
    answer = ask(server, body)
    after: Counter[str] = Counter(cache_statistics(server)["hits"])
    return answer, dict(after - before)


def root_of(folder: Path) -> Path:
    """The folder of the only model that has blocks."""
    (root,) = roots(folder)
    return folder / root.hex()


def verify(folder: Path) -> str:
    """Return what `cede kv verify` says, if all is well."""
    result = CliRunner().invoke(main, ["kv", "verify", "--kv-dir", str(folder)])
    assert result.exit_code == 0, result.output
    return result.output


A, B, C = prompt(300, seed=130), prompt(330, seed=131), prompt(260, seed=132)


def resident(server: ForkedServer) -> int:
    """Bytes of a process's memory."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
