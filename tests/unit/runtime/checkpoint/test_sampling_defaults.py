"""Sampling of a request that says nothing: the model's recommendation, llama-server's, or OpenAI's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from runtime.checkpoint.open import open_checkpoint
from runtime.checkpoint.sampling_defaults import (
    LLAMA_SERVER,
    RANGES,
    SamplingDefaults,
    SamplingOptions,
    SamplingSource,
    sampling_defaults,
)
from runtime.errors import CheckpointError, RequestError
from runtime.sampling.params import SamplingParams
from tests.fakes.engine import FakeEngine, as_engine, chat, completion, model
from tests.rows import every_row
from web.apis.openai.completions import parse_completion
from web.serving.app import create_app

if TYPE_CHECKING:
    from pathlib import Path


def recommended(folder: Path, options: SamplingOptions) -> SamplingDefaults:
    """The defaults for the model in `folder`."""
    return sampling_defaults(open_checkpoint(folder).generation, options)


def folder_with(folder: Path, **settings: object) -> Path:
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


def test_the_models_own_go_before_llama_servers(tmp_path: Path) -> None:
    folder_with(tmp_path, eos_token_id=2, do_sample=False, temperature=0.6, top_k=20, min_p=None)
    defaults = recommended(tmp_path, SamplingOptions())
    assert defaults == SamplingDefaults(temperature=0.6, top_p=0.95, top_k=20, min_p=0.05, repetition_penalty=1.0)
    assert str(defaults) == (
        "temperature 0.6, top_k 20 (generation_config.json); "
        "top_p 0.95, min_p 0.05, repetition_penalty 1 (llama-server's default)"
    )


def test_a_model_that_says_nothing(tmp_path: Path) -> None:
    assert recommended(tmp_path, SamplingOptions()).values() == LLAMA_SERVER
    assert recommended(folder_with(tmp_path, eos_token_id=2), SamplingOptions()).values() == LLAMA_SERVER


def test_openai_is_neutral(tmp_path: Path) -> None:
    folder_with(tmp_path, temperature=0.1, repetition_penalty=1.3)
    defaults = recommended(tmp_path, SamplingOptions(SamplingSource.OPENAI))
    assert SamplingParams(**defaults.values()) == SamplingParams()
    assert set(defaults.sources.values()) == {"openai"}


@pytest.mark.parametrize("source", SamplingSource)
def test_the_operator_overrules(source: SamplingSource, tmp_path: Path) -> None:
    folder_with(tmp_path, temperature=0.1)
    defaults = recommended(tmp_path, SamplingOptions(source, temperature=0, min_p=0.2))
    assert (defaults.temperature, defaults.min_p) == (0, 0.2)
    assert (defaults.sources["temperature"], defaults.sources["min_p"]) == ("operator", "operator")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.5),
        ("temperature", "hot\n"),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.5),
        ("top_k", -2),
        ("top_k", 20.5),
        ("min_p", 2),
        ("repetition_penalty", 0),
        ("repetition_penalty", float("nan")),
    ],
)
def test_what_cannot_be_meant_is_named_and_left_out(
    name: str, value: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert recommended(folder_with(tmp_path, **{name: value}), SamplingOptions()).values() == LLAMA_SERVER
    (message,) = caplog.messages
    assert message.startswith(f"generation_config.json: {name} ")
    assert message.endswith(f"is not used: it should be {RANGES[name]}")
    assert "\n" not in message


def test_no_limit_as_vllm_writes_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert recommended(folder_with(tmp_path, top_k=-1), SamplingOptions()).top_k == 0
    assert caplog.messages == []


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        recommended(tmp_path, SamplingOptions())


def test_a_value_that_is_given_is_in_its_range(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="top_p 7: it should be a number above 0 and at most 1"):
        recommended(tmp_path, SamplingOptions(top_p=7))


# --- as requests see them ---------------------------------------------------------------------------------------------

DEFAULTS = SamplingDefaults(temperature=0.3, top_p=0.9, top_k=50, min_p=0.1, repetition_penalty=1.2)


def sampling_of(**fields: Any) -> SamplingParams:  # noqa: ANN401
    body = json.dumps({"prompt": "hi"} | fields).encode()
    return parse_completion(body, model(sampling=DEFAULTS)).request.sampling


def test_a_request_that_does_not_say_gets_the_defaults() -> None:
    assert sampling_of() == SamplingParams(**DEFAULTS.values())
    assert sampling_of(temperature=None, top_k=None) == SamplingParams(**DEFAULTS.values())


@every_row(
    "name, value, counts_as",
    [
        ("temperature", 0, 0),
        ("temperature", 1.0, 1.0),
        ("top_p", 1.0, 1.0),
        ("top_k", 0, 0),
        ("top_k", -1, 0),
        ("top_k", 7, 7),
        ("min_p", 0, 0),
        ("repetition_penalty", 1.0, 1.0),
    ],
)
def test_a_requests_own_value_wins(name: str, value: float, counts_as: float) -> None:
    assert sampling_of(**{name: value}) == SamplingParams(**DEFAULTS.values() | {name: counts_as})


@every_row("name", RANGES)
@every_row("value", [-0.1, 0, 0.005, 0.01, 0.5, 1, 2, 3, 100, 101])
def test_requests_are_held_to_the_same_ranges(name: str, value: float) -> None:
    if value in RANGES[name]:
        assert completion(**{name: value}) is not None
    else:
        with pytest.raises(RequestError, match=name):
            completion(**{name: value})


def test_the_fakes_of_these_tests_are_neutral() -> None:
    assert chat().request.sampling == SamplingParams()


async def test_models_says_what_is_in_force() -> None:
    engine = FakeEngine()
    engine.model.sampling = DEFAULTS
    client = create_app(as_engine(engine)).test_client()
    (card,) = (await (await client.get("/v1/models")).get_json())["data"]
    assert card["sampling_defaults"] == DEFAULTS.values() | {"sources": dict.fromkeys(RANGES, "openai")}
