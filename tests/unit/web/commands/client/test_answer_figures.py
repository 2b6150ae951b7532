"""Figures of answers and hang-ups, in words."""

from __future__ import annotations

from web.commands.client.answer import Answer, answer_line, receipt_line

RECEIPT = {
    "phase": "decode",
    "detected_at": 100.0,
    "slot_freed_at": 100.012,
    "computed_tokens": 60,
    "kept_tokens": 58,
    "wasted_tokens": 2,
}


def test_an_answer_says_tokens_speed_and_what_was_cached() -> None:
    answer = Answer()
    answer.finish_reason = "length"
    answer.usage = {
        "completion_tokens": 40,
        "prompt_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    answer.timings = {"predicted_per_second": 98.76, "draft_n": 7, "draft_n_accepted": 5}
    assert answer_line(answer) == (
        "40 tokens; 12 of them thought; 98.8 tokens/s; prompt 9 tokens, 8 cached; 5 of 7 drafts accepted; "
        "cut at the limit of tokens"
    )


def test_an_answer_that_was_cut_short_says_why() -> None:
    answer = Answer()
    answer.usage, answer.cancelled, answer.finish_reason = {"completion_tokens": 1}, "operator", "length"
    assert answer_line(answer) == "1 token; prompt 0 tokens, 0 cached; cut short: operator"


def test_a_receipt_says_what_is_kept_and_when_the_slot_was_free() -> None:
    assert receipt_line(RECEIPT) == (
        "hung up in decode; 60 tokens computed, 58 kept for a retry, 2 wasted; slot free after 12 ms"
    )
    queued = RECEIPT | {"phase": "queued", "slot_freed_at": None, "computed_tokens": 0}
    assert receipt_line(queued) == "hung up in queued; nothing was computed"
