"""Every known way to write a request is understood."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from runtime.errors import RequestError
from runtime.sampling.params import SamplingParams
from tests.fakes.engine import BOS, CONTEXT, VOCABULARY, chat, completion, model
from tests.unit.web.generation.openai_format.wrong_values import BOTH
from web.apis.openai.completions import parse_completion
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions

# --- understood -------------------------------------------------------------------------------------------


def tokens(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_defaults_are_openais() -> None:
    request = chat().request
    assert request.sampling == SamplingParams()
    assert (request.max_tokens, request.stop.stops, request.ignore_eos) == (None, (), False)
    assert (request.cache_prompt, request.speculate) == (True, True)
    assert completion().request.max_tokens == 16
    assert not chat().stream


def test_null_and_neutral_values_stand_for_nothing() -> None:
    names = {name for name, _, _ in BOTH}
    plain = chat().request
    nulls = chat(**dict.fromkeys(names)).request
    neutral = chat(
        tools=[], tool_choice="none", response_format={"type": "text"}, n=1, best_of=1, suffix="", store=False
    ).request
    for request in (nulls, neutral):
        assert (request.sampling, request.prompts) == (plain.sampling, plain.prompts)


def test_every_parameter_reaches_the_engine() -> None:
    request = completion(
        temperature=0,
        top_p=0.5,
        top_k=40,
        min_p=0.05,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=2,
        logit_bias={"5": -100, "7": 1.5},
        min_tokens=2,
        seed=-(2**63),
        logprobs=3,
        max_tokens=9,
        stop=["\n", "END"],
        ignore_eos=True,
        cache_prompt=False,
        speculate=False,
    ).request
    assert request.sampling == SamplingParams(
        temperature=0.0,
        top_k=40,
        top_p=0.5,
        min_p=0.05,
        repetition_penalty=1.1,
        presence_penalty=-1.0,
        frequency_penalty=2.0,
        logit_bias=((5, -100.0), (7, 1.5)),
        min_tokens=2,
        seed=-(2**63),
        logprobs=3,
    )
    assert (request.max_tokens, request.stop.stops) == (9, ("\n", "END"))
    assert request.ignore_eos
    assert not request.cache_prompt
    assert not request.speculate


def test_aliases_and_spellings() -> None:
    assert completion(repeat_penalty=1.3).request.sampling.repetition_penalty == 1.3
    assert completion(top_k=-1).request.sampling.top_k == 0
    assert completion(top_k=10**18).request.sampling.top_k == VOCABULARY
    assert completion(logit_bias={"7": 1, "07": 2}).request.sampling.logit_bias == ((7, 2.0),)
    assert completion(seed=-1).request.sampling.seed is None
    assert completion(stop="x").request.stop.stops == ("x",)
    assert chat(max_completion_tokens=5).request.max_tokens == 5
    assert chat(logprobs=True).request.sampling.logprobs == 0
    assert chat(logprobs=True, top_logprobs=4).request.sampling.logprobs == 4
    assert chat(logprobs=False).request.sampling.logprobs is None
    assert completion(logprobs=0).request.sampling.logprobs == 0


def test_tokens_may_be_chosen_that_end_an_output_or_that_it_may_have() -> None:
    request = completion(stop_token_ids=[5, 6, 5], allowed_token_ids=[7], stop="x", include_stop_str_in_output=True)
    assert (request.request.end_ids, request.request.allowed, request.request.stop.kept) == ((5, 6), (7,), True)
    plain = completion(stop_token_ids=[], allowed_token_ids=[], bad_words=[]).request
    assert plain.sampling.bad_words == ()
    assert (plain.end_ids, plain.allowed, plain.stop.kept) == ((), (), False)


def test_nothing_but_the_prompt_may_be_asked_for() -> None:
    assert chat(max_tokens=0).request.max_tokens == completion(max_tokens=0).request.max_tokens == 0


def test_more_generations_than_choices() -> None:
    parsed = completion(prompt=[[1], [2]], n=1, best_of=2)
    assert parsed.request.prompts == ((1,), (1,), (2,), (2,))
    assert parsed.request.sampling.logprobs == 0  # to be compared by
    assert not parsed.options.logprobs
    assert completion(best_of=0).request.prompts == completion().request.prompts
    with pytest.raises(RequestError, match="cannot be streamed"):
        completion(best_of=2, stream=True)
    with pytest.raises(RequestError, match="must not be less"):
        completion(best_of=1, n=2)


def test_max_tokens_is_cut_to_the_context() -> None:
    assert completion(prompt=[1] * 60, max_tokens=10**9).request.max_tokens == CONTEXT - 60


def test_the_limit_of_tokens_has_other_names_and_a_value_for_none() -> None:
    """As llama.cpp's users write it: -1 is for as many as the context has room for."""
    for ask in (chat, completion):
        assert ask(n_predict=5).request.max_tokens == 5
        assert ask(n_predict=5, max_tokens=5).request.max_tokens == 5
        for name in ("max_tokens", "n_predict"):
            assert ask(**{name: -1}).request.max_tokens is None
    assert chat(max_completion_tokens=-1).request.max_tokens is None
    with pytest.raises(RequestError, match="'max_tokens' and 'n_predict' differ"):
        completion(max_tokens=-1, n_predict=5)


def test_ids_are_unique_and_shared_with_the_reply() -> None:
    first, second = chat(), chat()
    assert first.request.id == first.options.id != second.request.id
    assert first.request.id.startswith("chatcmpl-")
    assert completion().request.id.startswith("cmpl-")


def test_any_model_name_is_echoed() -> None:
    assert chat(model="gpt-9").options.model == "gpt-9"
    assert chat().options.model == "bytes"


# --- not understood ---------------------------------------------------------------------------------------


def test_unknown_fields_are_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cede.web"):
        chat(abracadabra=2, zzz=None, metadata={"a": "b"}, user="me")
    (record,) = caplog.records
    assert record.getMessage().endswith("ignored unknown fields: 'abracadabra, zzz'")


def test_unknown_fields_cannot_write_a_line_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cede.web"):
        chat(**{"x\n2026-01-01 ERROR forged\x1b[2J": 1, "y" * 250: 2})
    (message,) = caplog.messages
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize("first", [1.1, None])
def test_two_names_of_one_field_are_refused_because_only_one_would_count(first: float | None) -> None:
    with pytest.raises(RequestError, match="it should have 'repeat_penalty' or another name of the same field"):
        completion(repetition_penalty=first, repeat_penalty=1.3)
    assert completion(repetition_penalty=1.1, repeat_penalty=None).request.sampling.repetition_penalty == 1.1


@pytest.mark.parametrize("make", [chat, completion])
def test_bad_words_are_banned_at_the_beginning_and_behind_a_space(make: Callable[..., Asked[ResponseOptions]]) -> None:
    words = make(bad_words=["no", " yes", "no"]).request.sampling.bad_words
    assert words == tuple(tuple(text.encode()) for text in ("no", " no", " yes"))


@pytest.mark.parametrize(
    "fields", [{"allowed_token_ids": [65]}, {"response_format": {"type": "json_object"}}, {"guided_regex": "a"}]
)
def test_bad_words_stand_alone(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="cannot go together") as refused:
        completion(bad_words=["no"], **fields)
    assert refused.value.param == "bad_words"


def test_bad_words_leave_something_to_draw() -> None:
    small = model(vocab_size=4, eos_token_ids=(3,))
    with pytest.raises(RequestError, match="leave no token") as refused:
        parse_completion(json.dumps({"prompt": [1], "bad_words": ["\0", "\1", "\2"]}).encode(), small)
    assert refused.value.param == "bad_words"


def test_the_last_tokens_of_a_prompt_are_kept_behind_what_begins_a_text() -> None:
    long = "x" * (CONTEXT - 10) + "0123456789"
    assert completion(prompt=long, truncate_prompt_tokens=4).request.prompts == ((BOS, *b"789"),)
    assert completion(prompt=[5, 6, 7], truncate_prompt_tokens=2).request.prompts == ((6, 7),)
    assert completion(prompt="ab", truncate_prompt_tokens=9).request.prompts == ((BOS, *b"ab"),)
    assert completion(prompt=list(range(200)), truncate_prompt_tokens=-1, max_tokens=5).request.prompts == (
        tuple(range(200 - CONTEXT + 5, 200)),
    )
    assert bytes(chat(truncate_prompt_tokens=11).request.prompts[0]) == b"<assistant>"
    with pytest.raises(RequestError, match="maximum context length"):
        completion(prompt=[1] * 100, truncate_prompt_tokens=90)
