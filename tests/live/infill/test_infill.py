"""Both endpoints on a real server: streams say what whole answers say, and a hang-up frees the slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1
from tests.live.server import Json, Server
from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import VOCAB_SIZE

QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>")
GREEDY: Json = {"temperature": 0}
GAP: Json = {"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n\nadd(1, 2)\n"} | GREEDY
FIM: Json = {"prompt": "def add(a, b):\n    return ", "suffix": "\n\nadd(1, 2)\n"} | GREEDY


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("infill")
    FAMILIES["qwen2"](folder / "model", max_position_embeddings=4096, vocab_size=VOCAB_SIZE + len(QWEN))
    add_tokens(folder / "model" / "tokenizer.json")
    flags = ("--slots", "2", "--device", "cpu", "--dtype", "float32")
    with ForkedServer(folder, str(folder / "model"), *flags) as server:
        yield server


def add_tokens(path: Path) -> None:
    """Give a tokenizer Qwen's tokens for infilling, behind those that it has."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in QWEN])
    tokenizer.save(str(path))


def answer(server: Server, path: str, body: Json) -> Any:  # noqa: ANN401
    with Http1(server, body, path) as client:
        status, _, made = client.answer()
    assert status == 200, made
    return made


def test_a_gap_in_llama_server_s_shape(server: Server) -> None:
    whole = answer(server, "/infill", GAP | {"n_predict": 12, "return_tokens": True})
    assert (whole["stop"], whole["stop_type"], whole["tokens_predicted"]) == (True, "limit", 12)
    assert len(whole["tokens"]) == 12
    prompt = [*GAP["input_prefix"].encode(), *GAP["input_suffix"].encode()]
    assert whole["tokens_evaluated"] == len(prompt) + 3
    with Http1(server, GAP | {"n_predict": 12, "stream": True}, "/infill") as client:
        *pieces, last = client.events()
    assert "".join(piece["content"] for piece in pieces) == whole["content"]
    assert [token_id for piece in pieces for token_id in piece["tokens"]] == whole["tokens"]
    assert last["stop"]


def test_it_is_the_prompt_that_a_suffix_makes(server: Server) -> None:
    text = answer(server, "/infill", GAP | {"n_predict": 12})["content"]
    chat = answer(server, "/v1/fim/completions", FIM | {"max_tokens": 12})
    assert chat["choices"][0]["message"]["content"] == text
    completion = answer(server, "/v1/completions", FIM | {"max_tokens": 12})
    assert completion["choices"][0]["text"] == text


def test_other_files_change_the_prompt_and_what_does_not_fit_is_left_out(server: Server) -> None:
    files = [{"filename": f"{number}.py", "text": "x = 1\n" * 200} for number in range(5)]
    alone, some = (
        answer(server, "/infill", GAP | fields) for fields in ({"n_predict": 1}, {"n_predict": 1, "input_extra": files})
    )
    assert alone["tokens_evaluated"] + 3 * 1200 < some["tokens_evaluated"] < 4096
