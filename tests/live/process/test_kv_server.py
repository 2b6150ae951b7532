"""The tiers of KV in a real server over real sockets: what is reused, and that nobody can tell from the tokens.

Greedy, in float32, with the embedded model.  What a request should say is asked of a server that keeps nothing, with
`cache_prompt` off.  A block of that model's KV takes 320 KiB.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import stat
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from runtime.kv.blocks import BLOCK_TOKENS, block_keys
from runtime.kv.disk.files import (
    HEADER_BYTES,
    checksum,
    encode_header,
    read_block,
    write_temporary,
)
from runtime.kv.disk.folder import opened_root, roots
from tests.fakes.kv_blocks import small_file_system
from tests.live.forked import ForkedServer
from tests.live.server import CHAT, COMPLETIONS, Gone, Http1, completion, prompt, wait_for
from web.commands.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]

CHUNK = 64  # tokens; fixed, so that a prompt is always read in the same pieces
FIXED = ("--chunk-tokens", str(CHUNK), "--device", "cpu", "--dtype", "float32")
BLOCK_BYTES = 320 * 2**10
ONE_SLOT_ON_DISK = ("--slots", "1", "--kv-ram", "0")

SYSTEM = "You write small functions in plain Python. " * 16
QUESTIONS = ["Read the lines of a file.", "Now skip the empty ones.", "And count the words.", "Add a docstring."]


# --- servers --------------------------------------------------------------------------------------------------------


class Starter:
    """Starts servers whose logs lie in one folder, and ends those that are left."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack

    def __call__(self, *flags: str) -> ForkedServer:
        return self._stack.enter_context(ForkedServer(self._folder, *FIXED, *flags))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """For servers that last as long as the module."""
    with ExitStack() as stack:
        yield Starter(tmp_path_factory.mktemp("shared"), stack)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """For servers that last as long as the test."""
    (tmp_path / "logs").mkdir()
    with ExitStack() as stack:
        yield Starter(tmp_path / "logs", stack)


@pytest.fixture(scope="module")
def expected(shared: Starter) -> Expected:
    """What a server without any cache says; asked once for each body."""
    server = shared("--slots", "1", "--kv-ram", "0")
    known: dict[str, list[int]] = {}

    def ask_plainly(body: Json, path: str = COMPLETIONS) -> list[int]:
        key = json.dumps([path, body])
        if key not in known:
            answer = ask(server, body | {"cache_prompt": False}, path)
            assert cached(answer) == 0
            known[key] = tokens(answer)
        return known[key]

    return ask_plainly


@pytest.fixture(scope="module")
def four(shared: Starter) -> Server:
    """Four slots, and memory."""
    return shared("--slots", "4", "--kv-ram", "64MiB")


@pytest.fixture(scope="module")
def one_with_ram(shared: Starter) -> Server:
    """One slot, and memory."""
    return shared("--slots", "1", "--kv-ram", "64MiB")


# --- asking ---------------------------------------------------------------------------------------------------------


def plain(ids: Sequence[int], max_tokens: int = 12, **fields: Any) -> Json:  # noqa: ANN401
    """A completion that is answered whole."""
    return completion(list(ids), max_tokens, stream=False, **fields)


def chat(messages: list[Json], max_tokens: int = 12) -> Json:
    body = completion([], max_tokens, stream=False)
    del body["prompt"]
    return body | {"messages": messages}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def ask(server: Server, body: Json, path: str = COMPLETIONS) -> Json:
    with Http1(server, body, path) as client:
        return answer_of(client)


def answer_of(client: Http1) -> Json:
    status, _, answer = client.answer()
    assert status == 200, answer
    answered: Json = answer
    return answered


def tokens(answer: Json) -> list[int]:
    said: list[int] = answer["choices"][0]["token_ids"]
    return said


def cached(answer: Json) -> int:
    """The prompt's tokens that were not computed, after a look at whether the answer's two accounts of it agree."""
    usage, timings = answer["usage"], answer["timings"]
    count: int = usage["prompt_tokens_details"]["cached_tokens"]
    assert timings["cache_n"] == count
    assert timings["prompt_n"] == usage["prompt_tokens"] - count
    return count


def prompt_ids(answer: Json, path: str) -> list[int]:
    """Chat says them of the answer, completions of each choice."""
    ids: list[int] = (answer if path == CHAT else answer["choices"][0])["prompt_token_ids"]
    return ids


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences share from their starts."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def in_blocks(count: int) -> int:
    """The tokens in complete blocks of a prefix of `count`."""
    return count // BLOCK_TOKENS * BLOCK_TOKENS


def reusable(ids: Sequence[int]) -> int:
    """The tokens of a prompt that blocks can bring; its last is always computed."""
    return in_blocks(len(ids) - 1)


# --- looking in -----------------------------------------------------------------------------------------------------


def cache_statistics(server: Server) -> Json:
    statistics: Json = server.get("/v1/statistics")["manager"]["cache"]
    return statistics


def disk_statistics(server: Server) -> Json:
    statistics: Json = cache_statistics(server)["disk"]
    return statistics


def wait_saved(server: Server) -> None:
    """Wait until nothing is left to be kept, nor to be written."""

    def saved() -> bool:
        statistics = cache_statistics(server)
        return statistics["unsaved_blocks"] == 0 and not (statistics["disk"] or {}).get("queued")

    wait_for(saved, "the blocks to be kept")


def wait_written(server: Server, count: int) -> None:
    """Wait until so many blocks have been written since the start."""
    wait_for(lambda: disk_statistics(server)["written"] >= count, f"{count} blocks to be written")


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


def chain_files(folder: Path, ids: Sequence[int]) -> list[Path]:
    """The files of a prompt's blocks, in order."""
    (root,) = roots(folder)
    return [next(root_of(folder).glob(f"{key.hex()}-*.safetensors")) for key in block_keys(root, ids)]


def verify(folder: Path) -> str:
    """What `cede kv verify` says, if all is well."""
    result = CliRunner().invoke(main, ["kv", "verify", "--kv-dir", str(folder)])
    assert result.exit_code == 0, result.output
    return result.output


# --- in the slots ---------------------------------------------------------------------------------------------------


def converse(server: Server, expected: Expected, between: Callable[[int], None]) -> list[tuple[int, int]]:
    """A chat of a few turns.  For each turn after the first, the tokens that were known, and those that were cached."""
    messages: list[Json] = [{"role": "system", "content": SYSTEM}]
    known: list[int] = []
    turns = []
    for turn, question in enumerate(QUESTIONS):
        messages.append(user(question))
        answer = ask(server, chat(messages), CHAT)
        said, ids = tokens(answer), prompt_ids(answer, CHAT)
        assert said == expected(chat(messages), CHAT)
        if turn:
            turns.append((min(common(known, ids), len(ids) - 1), cached(answer)))
        known = ids + said[:-1]  # the last one's KV has not been computed
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        between(turn)
    return turns


def test_a_turn_of_a_conversation_computes_only_what_is_new(four: Server, expected: Expected) -> None:
    """To the token, since the slot still has it all."""
    for known, reused in converse(four, expected, lambda _: None):
        assert reused == known > 2 * BLOCK_TOKENS


def test_a_turn_after_someone_else_had_the_slot(one_with_ram: Server, expected: Expected) -> None:
    """To within one block, from memory."""

    def someone_else(turn: int) -> None:
        ask(one_with_ram, plain(prompt(200, seed=100 + turn)))

    for known, reused in converse(one_with_ram, expected, someone_else):
        assert reused == in_blocks(known) >= 2 * BLOCK_TOKENS


def test_concurrent_clients_share_their_system_prompt(four: Server, expected: Expected) -> None:
    bodies = [chat([{"role": "system", "content": "Shared. " + SYSTEM}, user(question)]) for question in QUESTIONS]
    with ExitStack() as stack:
        clients = [stack.enter_context(Http1(four, body, CHAT)) for body in bodies]
        answers = [answer_of(client) for client in clients]
    ids = [prompt_ids(answer, CHAT) for answer in answers]
    share = min(common(ids[0], other) for other in ids[1:])
    assert share > 2 * BLOCK_TOKENS
    assert [tokens(answer) for answer in answers] == [expected(body, CHAT) for body in bodies]
    first, *others = sorted(map(cached, answers))
    assert first < share - BLOCK_TOKENS, "somebody must have computed it"
    assert all(reused > share - BLOCK_TOKENS for reused in others), others


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_retry_with_another_tail_after_a_hang_up(four: Server, expected: Expected, phase: str) -> None:
    ids = prompt(3000 if phase == "prefill" else 400, seed=110)
    with Http1(four, completion(ids, 2000)) as client:
        if phase == "prefill":
            wait_for(lambda: any(s["tokens"] >= 4 * CHUNK for s in four.slots() if s["request_id"]), "some chunks")
        else:
            client.read_tokens(3)
        (request_id,) = four.requests()
    (receipt,) = four.wait_ended(request_id)
    kept = min(len(ids), receipt["cached_tokens"] + receipt["kept_tokens"])
    assert kept >= 4 * CHUNK
    same = kept - 100
    body = plain([*ids[:same], *prompt(150, seed=120)])
    answer = ask(four, body)
    assert cached(answer) == same
    assert tokens(answer) == expected(body, COMPLETIONS)


# --- in memory and on disk ------------------------------------------------------------------------------------------

A, B, C = prompt(300, seed=130), prompt(330, seed=131), prompt(260, seed=132)


def test_what_lost_its_slot_comes_from_memory(one_with_ram: Server, expected: Expected) -> None:
    ask(one_with_ram, plain(A))
    ask(one_with_ram, plain(B))
    answer, hits = hits_of(one_with_ram, plain(A))
    assert cached(answer) == reusable(A)
    assert hits == {"ram": reusable(A)}
    assert tokens(answer) == expected(plain(A), COMPLETIONS)


def test_what_lost_its_slot_comes_from_disk_and_outlives_the_server(
    tmp_path: Path, start: Starter, expected: Expected
) -> None:
    folder = tmp_path / "kv"
    first = start(*ONE_SLOT_ON_DISK, "--kv-dir", str(folder))
    ask(first, plain(A))
    ask(first, plain(B))
    answer, hits = hits_of(first, plain(A))
    assert cached(answer) == reusable(A)
    assert hits == {"disk": reusable(A)}
    assert tokens(answer) == expected(plain(A), COMPLETIONS)

    assert tokens(ask(first, plain(C))) == expected(plain(C), COMPLETIONS)
    first.signal(signal.SIGTERM)  # with the last prompt's KV still in its slot, or on its way
    assert first.wait_exit() == 0
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(root_of(folder).stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in root_of(folder).iterdir()} == {0o600}

    second = start("--slots", "1", "--kv-ram", str(2 * BLOCK_BYTES), "--kv-dir", str(folder))
    for ids in (A, B, C):
        answer, hits = hits_of(second, plain(ids))
        assert cached(answer) == reusable(ids)
        assert hits == {"disk": reusable(ids)}
        assert tokens(answer) == expected(plain(ids), COMPLETIONS)

    ask(second, plain(A))
    ask(second, plain(A[:20]))  # which is no block, so the memory keeps what it has
    answer, hits = hits_of(second, plain([*A[:290], *B]))
    assert hits == {"resident": 20, "ram": 2 * BLOCK_TOKENS, "disk": in_blocks(290) - 2 * BLOCK_TOKENS}
    assert cached(answer) == in_blocks(290)
    assert tokens(answer) == expected(plain([*A[:290], *B]), COMPLETIONS)
    verify(folder)


def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path, start: Starter) -> None:
    flags = (*ONE_SLOT_ON_DISK, "--kv-dir", str(tmp_path / "kv"))
    first = start(*flags)
    first.wait_ready()
    second = start(*flags)
    assert second.wait_exit() == 1
    assert "Traceback" not in second.log()
    errors = [line for line in second.log().splitlines() if " INFO " not in line]
    assert errors == [f"Error: {tmp_path / 'kv'}: another cede (process {first.pid}) is using this KV folder"]
    assert tokens(ask(first, plain(A, 1)))


# --- files that cannot be used ----------------------------------------------------------------------------------------


def rewrite(file: Path, change: Callable[[bytearray], object]) -> None:
    contents = bytearray(file.read_bytes())
    change(contents)
    file.write_bytes(contents)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1000)


def flip_a_bit(file: Path) -> None:
    def flip(contents: bytearray) -> None:
        contents[HEADER_BYTES + 12345] ^= 4

    rewrite(file, flip)


def link(file: Path) -> None:
    elsewhere = file.with_suffix(".elsewhere")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def make_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def take_another_models(file: Path) -> None:
    """Its key and numbers are right, but it says that it is of another root."""
    root = bytes.fromhex(file.parent.name)
    with opened_root(file.parent.parent, root) as folder:
        header, data = read_block(folder, file.name, root=root, layout=None)
    other = type(header)(root[::-1], header.key, header.parent, header.token_ids, header.layout, header.checksum)
    file.write_bytes(encode_header(other) + data.tobytes())


def come_from_the_future(file: Path) -> None:
    def age(contents: bytearray) -> None:
        start = contents.index(b'"version":"1"')
        contents[start : start + 13] = b'"version":"9"'

    rewrite(file, age)


DAMAGES = [truncate, flip_a_bit, link, make_a_folder, take_another_models, come_from_the_future]


@pytest.mark.parametrize("when", ["while it runs", "before it starts"])
def test_a_file_that_cannot_be_used_is_a_miss(tmp_path: Path, start: Starter, expected: Expected, when: str) -> None:
    """Each damage to the second of three blocks of a prompt of its own."""
    folder = tmp_path / "kv"
    flags = (*ONE_SLOT_ON_DISK, "--kv-dir", str(folder))
    server = start(*flags)
    prompts = [prompt(3 * BLOCK_TOKENS + 8, seed=140 + i) for i in range(len(DAMAGES))]
    for ids in (*prompts, B):
        ask(server, plain(ids, 4))
    wait_saved(server)
    if when == "before it starts":
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
    damaged = [chain_files(folder, ids)[1] for ids in prompts]
    for damage, file in zip(DAMAGES, damaged, strict=True):
        damage(file)
    if when == "before it starts":
        server = start(*flags)
        ask(server, plain(B, 4))

    for damage, ids in zip(DAMAGES, prompts, strict=True):
        answer, hits = hits_of(server, plain(ids, 4))
        assert tokens(answer) == expected(plain(ids, 4), COMPLETIONS), damage
        assert hits == {"disk": BLOCK_TOKENS}, damage
    for damage, ids in zip(DAMAGES, prompts, strict=True):
        assert tokens(ask(server, plain(ids, 4))) == expected(plain(ids, 4), COMPLETIONS), damage
    said = Counter(re.findall(r"KV block (\w{16})… is not used", server.log()))
    assert said == Counter(file.name[:16] for file in damaged), server.log()
    assert disk_statistics(server)["rejected"].keys() == {"size", "checksum", "irregular", "root", "version"}


def test_numbers_that_were_changed_behind_a_checksum_that_fits(
    tmp_path: Path, start: Starter, expected: Expected
) -> None:
    folder = tmp_path / "kv"
    server = start(*ONE_SLOT_ON_DISK, "--kv-dir", str(folder), "--kv-audit", "1")
    ask(server, plain(A))
    ask(server, plain(B))
    answer = ask(server, plain(A))
    assert cached(answer) == reusable(A) - BLOCK_TOKENS, "the last block is computed again"
    ask(server, plain(B))
    wait_saved(server)
    assert cache_statistics(server)["audit_failures"] == 0

    file = chain_files(folder, A)[1]
    forge(file)
    forged = file.read_bytes()
    answer = ask(server, plain(A))
    assert tokens(answer) == expected(plain(A), COMPLETIONS)
    assert cached(answer) == 0
    assert cache_statistics(server)["strikes"] == disk_statistics(server)["struck"] == reusable(A) // BLOCK_TOKENS
    assert len(re.findall(r" ERROR .*audit: a cached block differs", server.log())) == 1
    assert cache_statistics(server)["audit_failures"] == 1

    ask(server, plain(B))
    wait_saved(server)
    assert file.read_bytes() != forged, "the file went, and what was computed instead has its name"
    answer = ask(server, plain(A))
    assert tokens(answer) == expected(plain(A), COMPLETIONS)
    assert cached(answer) == reusable(A) - BLOCK_TOKENS
    assert cache_statistics(server)["audit_failures"] == 1


def forge(file: Path) -> None:
    """Let the values of a block's tokens change places.  (With their keys they might: attention has no order.)"""
    root = bytes.fromhex(file.parent.name)
    with opened_root(file.parent.parent, root) as folder:
        header, data = read_block(folder, file.name, root=root, layout=None)
        numbers = data.view(np.float32).reshape(header.layout.shape).copy()
        numbers[:, 1] = numbers[:, 1, :, ::-1]
        forged = numbers.view(np.uint8).reshape(-1)
        header = type(header)(root, header.key, header.parent, header.token_ids, header.layout, checksum(forged))
        os.rename(
            write_temporary(folder, header, forged, stamp=time.time_ns()),
            file.name,
            dst_dir_fd=folder,
            src_dir_fd=folder,
        )
        read_block(folder, file.name, root=root, layout=header.layout)


# --- disks and memory that are full ---------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 8 MiB: two dozen blocks."""
    with small_file_system(tmp_path / "small", "8m") as folder:
        yield folder


def test_a_full_disk(small_disk: Path, start: Starter, expected: Expected) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6 * 2**20))
    prompts = [prompt(200, seed) for seed in range(160, 170)]
    first, last, last_but_one = prompts[0], prompts[-1], prompts[-2]
    with start(*ONE_SLOT_ON_DISK, "--kv-dir", str(small_disk / "kv")) as server:
        for ids in prompts:
            ask(server, plain(ids, 4))
        wait_saved(server)
        statistics = disk_statistics(server)
        assert (statistics["suspended"], statistics["blocks"] < 3 * len(prompts)) == (True, True)
        for ids in (first, last_but_one):  # serving goes on, from what is there and from nothing
            answer, hits = hits_of(server, plain(ids, 4))
            assert tokens(answer) == expected(plain(ids, 4), COMPLETIONS)
            assert hits == ({"disk": reusable(first)} if ids is first else {})
        assert not list(root_of(small_disk / "kv").glob("*.tmp"))

        def resumed() -> bool:
            for ids in (last, last_but_one):
                ask(server, plain(ids, 4))
            return not disk_statistics(server)["suspended"]

        ballast.unlink()
        wait_for(resumed, "writing to go on")
        for ids in (last, last_but_one, first):  # some of their blocks may have come too early
            ask(server, plain(ids, 4))
        for ids in (last, last_but_one):
            answer, hits = hits_of(server, plain(ids, 4))
            assert hits == {"disk": reusable(ids)}
            assert tokens(answer) == expected(plain(ids, 4), COMPLETIONS)
        assert server.log().count("KV blocks are not written to disk for now: No space left on device") == 1
        assert server.log().count("KV blocks are written to disk again") == 1
    verify(small_disk / "kv")


def resident(server: ForkedServer) -> int:
    """Bytes of a process's memory."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads a process's memory from /proc")
def test_memory_stays_within_its_budget(start: Starter) -> None:
    """Four times the budget passes through; the server beside it has no such tier."""
    budget = 6 * 2**20
    with_ram = start("--slots", "1", "--context", "1024", "--kv-ram", str(budget))
    without = start("--slots", "1", "--context", "1024", "--kv-ram", "0")
    for seed in range(400, 410):
        ask(with_ram, plain(prompt(500, seed), 1))
        if seed < 403:
            ask(without, plain(prompt(500, seed), 1))
    wait_saved(with_ram)
    statistics = cache_statistics(with_ram)["ram"]
    assert 0.9 * budget < statistics["bytes"] <= budget
    assert statistics["evictions"] > 2 * statistics["blocks"]
    assert resident(with_ram) < resident(without) + 1.1 * budget + 8 * 2**20


# --- kill -9 --------------------------------------------------------------------------------------------------------

POOL = [prompt(length, seed) for seed, length in enumerate((100, 150, 210, 270), 500)]
POOL += [[*POOL[2][:150], *prompt(60, seed=510)], [*POOL[3][:200], *prompt(60, seed=511)]]


def pester(server: Server, expected: dict[int, list[int]], seed: int) -> int:
    """Ask one thing after another, old and new, until the server is gone; the number of answers."""
    draw = random.Random(seed)
    answered = 0
    with suppress(Gone, ConnectionError):
        while True:
            index = draw.randrange(2 * len(POOL))
            ids = POOL[index] if index < len(POOL) else prompt(draw.randrange(70, 300), draw.randrange(2**32))
            with Http1(server, plain(ids, 6)) as client:
                answer = answer_of(client)
            answered += 1
            assert index not in expected or tokens(answer) == expected[index]
    return answered


def survive_kills(
    start: Starter, folder: Path, expected: dict[int, list[int]], *, rounds: int, seed: int
) -> Counter[str]:
    """Kill the server that uses `folder` again and again, at random moments; what was seen."""
    draw = random.Random(seed)
    seen: Counter[str] = Counter()
    for round_ in range(rounds + 1):
        with start("--slots", "2", "--kv-ram", "0", "--kv-dir", str(folder), "--kv-disk", "8MiB") as server:
            server.wait_ready()
            assert not list(folder.glob("*/*.tmp"))
            seen["good files"] += int(verify(folder).split()[0])
            for index in draw.sample(range(len(POOL)), 2 if round_ < rounds else len(POOL)):
                answer = ask(server, plain(POOL[index], 6))
                assert tokens(answer) == expected[index]
                seen["cached tokens"] += cached(answer)
            statistics = disk_statistics(server)
            assert statistics["rejected"] == {}
            if round_ == rounds:
                return seen
            with ThreadPoolExecutor(2) as pool:
                clients = [pool.submit(pester, server, expected, draw.randrange(2**32)) for _ in range(2)]
                try:
                    wait_written(server, statistics["written"] + draw.randrange(6))
                    time.sleep(draw.random() * 0.02)  # not to wait for anything: this is the random moment
                finally:
                    server.signal(signal.SIGKILL)
                assert server.wait_exit() == -signal.SIGKILL
                seen["answers"] += sum(client.result() for client in clients)
            seen["kills in the middle of a write"] += bool(list(folder.glob("*/*.tmp")))
    raise AssertionError("unreachable")


def test_kill_9_at_random_moments(tmp_path: Path, start: Starter, expected: Expected) -> None:
    said = {index: expected(plain(ids, 6), COMPLETIONS) for index, ids in enumerate(POOL)}
    seen = survive_kills(start, tmp_path / "kv", said, rounds=6, seed=1)
    assert seen["cached tokens"] > 6 * BLOCK_TOKENS
    assert seen["answers"] > 0
