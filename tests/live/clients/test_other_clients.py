"""Clients that many people use, in processes of their own, and what is left when they are interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.checkpoint.open import open_checkpoint
from runtime.store.resolve import resolve_model
from tests.live.pages import ADDRESS, fenced, indented, sections
from tests.live.server import PATIENCE, Server, wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

SCRIPTS = Path(__file__).parent / "scripts"
PAGE = "use/clients.md"


def interrupt(client: subprocess.Popen[bytes], server: Server) -> str:
    """Interrupt a client, as Ctrl-C does, in the middle of the only stream; return the stream's id."""

    def streaming() -> str:
        return next((id for id, live in server.requests().items() if live["completion_tokens"] > 3), "")

    request_id = wait_for(streaming, "the client's stream")
    client.send_signal(signal.SIGINT)
    client.wait(PATIENCE)
    return request_id


def check_ended(server: Server, request_id: str) -> None:
    """Check that the hang-up has its receipt, and that nothing is held."""
    (receipt,) = server.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"
    assert receipt["slot_freed_at"] is not None
    server.wait_idle()


def run(arguments: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
    """Start a client."""
    known = os.environ | {"OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"} | environment
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=known)


@pytest.mark.parametrize("package", ["litellm", "langchain_openai"])
def test_an_answer_and_an_interrupted_stream(four_slots: Server, package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    script = SCRIPTS / f"{package.partition('_')[0]}_client.py"
    with run([sys.executable, str(script), four_slots.url]) as client:
        assert client.stdout is not None
        assert json.loads(client.stdout.readline()) == 3
        check_ended(four_slots, interrupt(client, four_slots))


def test_the_llm_command(four_slots: Server, tmp_path: Path) -> None:
    if find_spec("llm") is None:
        pytest.skip("llm is not installed")
    (block,) = (indented(text) for heading, text in sections(PAGE).items() if heading.startswith("llm "))
    (tmp_path / "extra-openai-models.yaml").write_text(block.replace(ADDRESS, four_slots.url))
    endless = json.dumps(dict.fromkeys(map(str, open_checkpoint(resolve_model(None)).config.eos_token_ids), -100))
    arguments = ["prompt", "-m", "cede", "-o", "max_tokens", "4000", "-o", "logit_bias", endless, "Write a function."]
    with run([sys.executable, "-m", "llm", *arguments], LLM_USER_PATH=str(tmp_path)) as client:
        check_ended(four_slots, interrupt(client, four_slots))


def test_the_blocks_in_python_of_the_page_about_clients_run(four_slots: Server) -> None:
    here = [block for block in fenced(PAGE, "python") if find_spec(block.split()[1].partition(".")[0]) is not None]
    assert here
    code = "".join(here).replace(ADDRESS, four_slots.url)
    with run([sys.executable, "-c", code]) as client:
        assert client.communicate(timeout=PATIENCE)[0]
        assert client.returncode == 0
