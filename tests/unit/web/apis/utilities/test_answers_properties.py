"""What is known of the server tells nothing of the machine."""

from __future__ import annotations

from tests.fakes.engine import TEMPLATE, model
from web.apis.utilities.answers import properties


def test_what_is_known_of_the_server() -> None:
    known = properties(model(eos_token_ids=(104,)), 4)
    assert known["default_generation_settings"]["n_ctx"] == 64
    assert known["default_generation_settings"]["params"]["repeat_penalty"] == 1.0
    assert (known["total_slots"], known["model_alias"]) == (4, "bytes")
    assert (known["bos_token"], known["eos_token"]) == ("<s>", "h")
    assert known["chat_template"] == TEMPLATE
    assert known["build_info"].startswith("cede ")


def test_a_base_model_has_no_template() -> None:
    assert properties(model(chat=None, eos_token_ids=()), 1)["chat_template"] is None
    assert properties(model(chat=None, eos_token_ids=()), 1)["eos_token"] is None
