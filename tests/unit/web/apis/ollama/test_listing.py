"""The served model as Ollama shows models."""

from __future__ import annotations

from datetime import datetime

import pytest

from runtime.chat.chat import Chat
from runtime.chat.template import ChatTemplate
from runtime.errors import NotFound
from runtime.loading.served import ModelFacts
from tests.fakes.engine import TEMPLATE, model
from web.apis.ollama.listing import capabilities, check_name, full_name, parameter_size, processes, show, tags

FACTS = ModelFacts("qwen3", "gguf", "Q4_K", 596_049_920, 400_000_000, 28, 16, 8, 1024, 40_960, "ab" * 32)


def test_names_have_a_tag() -> None:
    assert full_name(model()) == "bytes:latest"
    assert full_name(model(name="org/name:Q4_K_M")) == "org/name:Q4_K_M"


def test_a_name_is_known_with_and_without_its_tag() -> None:
    check_name("bytes", model())
    check_name("bytes:latest", model())
    for other in ("byte", "bytes:7b", "", None):
        with pytest.raises(NotFound, match=r"model '.*' not found"):
            check_name(other, model())


def test_the_lists_say_what_the_files_are() -> None:
    (entry,) = tags(model(facts=FACTS))["models"]
    assert (entry["size"], entry["digest"]) == (FACTS.num_bytes, FACTS.fingerprint)
    assert entry["details"] == {
        "parent_model": "",
        "format": "gguf",
        "family": "qwen3",
        "families": ["qwen3"],
        "parameter_size": "596.05M",
        "quantization_level": "Q4_K",
    }


def test_a_loaded_model_never_expires() -> None:
    (entry,) = processes(model(facts=FACTS, context_length=4096))["models"]
    assert entry["context_length"] == 4096
    assert datetime.fromisoformat(entry["expires_at"]).year > 2300


def test_the_model_s_figures_have_the_keys_of_gguf() -> None:
    shown = show(model(facts=FACTS))
    assert shown["model_info"]["general.architecture"] == "qwen3"
    assert shown["model_info"]["general.parameter_count"] == FACTS.parameters
    assert shown["model_info"]["qwen3.context_length"] == FACTS.trained_context
    assert shown["template"] == TEMPLATE
    assert "repeat_penalty" in shown["parameters"]


def test_what_the_model_can_do() -> None:
    thinking = Chat(ChatTemplate(TEMPLATE + "<think></think>"))
    assert capabilities(model(chat=None, pooling=None)) == ["completion"]
    assert capabilities(model()) == ["completion", "tools", "embedding"]
    assert capabilities(model(chat=thinking)) == ["completion", "tools", "thinking", "embedding"]


@pytest.mark.parametrize(
    ("parameters", "shown"), [(7, "7"), (1500, "1.5K"), (134_515_008, "134.52M"), (8_000_000_000, "8B")]
)
def test_a_number_of_parameters_as_people_say_it(parameters: int, shown: str) -> None:
    assert parameter_size(parameters) == shown
