"""Ollama's options as sampling parameters and limits."""

from __future__ import annotations

import pytest

from runtime.checkpoint.sampling_defaults import SamplingDefaults
from runtime.errors import RequestError
from tests.fakes.engine import CONTEXT, VOCABULARY, model
from tests.unit.web.apis.ollama.apps import chat, prompt_text


def test_each_option_is_the_parameter_that_it_names() -> None:
    options = {
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.25,
        "min_p": 0.125,
        "seed": 11,
        "repeat_penalty": 1.5,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
    }
    sampling = chat(options=options).request.sampling
    assert sampling.repetition_penalty == options.pop("repeat_penalty")
    assert {name: getattr(sampling, name) for name in options} == options


def test_what_is_not_said_is_the_server_s_default() -> None:
    served = model(sampling=SamplingDefaults(temperature=0.25, top_k=9))
    sampling = chat(served, options={"top_p": 0.5}).request.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.25, 9, 0.5)


def test_whole_numbers_may_have_a_point() -> None:
    request = chat(options={"top_k": 40.0, "seed": 7.0, "num_predict": 5.0, "repeat_last_n": -1.0}).request
    assert (request.sampling.top_k, request.sampling.seed, request.max_tokens) == (40, 7, 5)
    with pytest.raises(RequestError, match=r"options\.top_k"):
        chat(options={"top_k": 40.5})


def test_a_huge_top_k_is_all_tokens() -> None:
    assert chat(options={"top_k": 2**60}).request.sampling.top_k == VOCABULARY


@pytest.mark.parametrize(("given", "limit"), [(None, None), (0, None), (-1, None), (-2, None), (5, 5)])
def test_num_predict(given: int | None, limit: int | None) -> None:
    assert chat(options={"num_predict": given}).request.max_tokens == limit


def test_num_predict_is_cut_to_the_context() -> None:
    asked = chat(options={"num_predict": 10**6})
    assert asked.request.max_tokens == CONTEXT - len(prompt_text(asked))


def test_penalties_count_all_tokens_or_none() -> None:
    penalties = {"repeat_penalty": 1.5, "presence_penalty": 1, "frequency_penalty": 1}
    assert chat(options=penalties | {"repeat_last_n": -1}).request.sampling.penalises
    assert not chat(options=penalties | {"repeat_last_n": 0}).request.sampling.penalises
    assert not chat(options={"repeat_last_n": 64}).request.sampling.penalises
    with pytest.raises(RequestError, match=r"options\.repeat_last_n") as refused:
        chat(options=penalties | {"repeat_last_n": 64})
    assert refused.value.param == "options.repeat_last_n"


@pytest.mark.parametrize(("given", "stops"), [("\n", ("\n",)), (["\n", "END"], ("\n", "END")), ([], ())])
def test_stop_strings(given: str | list[str], stops: tuple[str, ...]) -> None:
    assert chat(options={"stop": given}).request.stop.stops == stops
