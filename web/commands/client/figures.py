"""Figures of an answer and of a hang-up, in words.  Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.common.units import counted

if TYPE_CHECKING:
    from web.commands.client.answer import Answer, Json


def answer_line(answer: Answer) -> str:
    """Return what an answer took: its tokens, its speed, and how much of the prompt was known."""
    usage, timings = answer.usage, answer.timings
    said = [counted(usage.get("completion_tokens", 0), "token")]
    if thought := (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"):
        said.append(f"{thought} of them thought")
    if speed := timings.get("predicted_per_second"):
        said.append(f"{speed:.1f} tokens/s")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    said.append(f"prompt {counted(usage.get('prompt_tokens', 0), 'token')}, {cached} cached")
    if drafted := timings.get("draft_n"):
        said.append(f"{timings.get('draft_n_accepted', 0)} of {drafted} drafts accepted")
    if answer.cancelled:
        said.append(f"cut short: {answer.cancelled}")
    elif answer.finish_reason == "length":
        said.append("cut at the limit of tokens")
    return "; ".join(said)


def receipt_line(receipt: Json) -> str:
    """Return what a hang-up cost."""
    said = [f"hung up in {receipt['phase']}"]
    if receipt["computed_tokens"]:
        kept, wasted = receipt["kept_tokens"], receipt["wasted_tokens"]
        said.append(
            f"{counted(receipt['computed_tokens'], 'token')} computed, {kept} kept for a retry, {wasted} wasted"
        )
    else:
        said.append("nothing was computed")
    if receipt["slot_freed_at"] is not None:
        said.append(f"slot free after {1000 * (receipt['slot_freed_at'] - receipt['detected_at']):.0f} ms")
    return "; ".join(said)
