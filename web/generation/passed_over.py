"""Fields that clients send and nothing here reads: the one list, with why; and what the log is told of others.

Everything else that a client's library can send reaches the model, or sets how it answers, or is refused by its name.
A key is the path of a field; `*` stands for any part of one, and `[kind]` for the type or role of the object around it.
`docs/use/ignored.md` shows the list.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from runtime.common.log_text import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

logger = logging.getLogger("cede.web")

MOST_NAMES = 1000
"""Names that are remembered; after so many, nothing new is told."""

MOST_TOLD = 20
"""Names that a line in the log has."""

CACHE = "says where a prompt may be cached: here every prompt is, by its content"
BILLING = "is about billing, or about who asks, of another's service"
HOSTED = "is of a tool that the provider's servers run, and that is not here: the log names it"
SHOWN = "is about how a tool comes to be shown: here all tools are, from the first"
STAMP = "was made by a server for its own use"
CITED = "says where a text was taken from; the text itself is read"
LOADING = "is how a model is loaded, which the server's own options say"
FORMAT = "names a schema; the answer is held to it all the same"

CHAT: Mapping[str, str] = {
    "*.prompt_cache_breakpoint.mode": CACHE,
    "prompt_cache_options": CACHE,
    "prompt_cache_retention": CACHE,
    "safety_identifier": BILLING,
    "messages[*].name": "is given to the chat template, and most do not show it",
    "response_format[json_schema].json_schema.name": FORMAT,
    "response_format[json_schema].json_schema.description": FORMAT,
    "include_reasoning": "asks for what is always done",
    "guided_decoding_backend": "chooses among libraries, of which there is one here",
}
RESPONSES: Mapping[str, str] = {
    "*.prompt_cache_breakpoint.mode": CACHE,
    "prompt_cache_options": CACHE,
    "prompt_cache_retention": CACHE,
    "client_metadata": BILLING,
    "input[*].id": STAMP,
    "input[*].status": STAMP,
    "input[*].phase": "says at what stage a message was written; its place among the items says so, too",
    "input[*].caller*": "says from where a call was made; no programs run here",
    "input[*].content[output_text].annotations*": CITED,
    "input[*].content[output_text].logprobs*": STAMP,
    "input[reasoning].encrypted_content": "can be read by OpenAI's servers alone; what is legible of a thought is read",
    "input[*_output].name": "is known from the call",
    "input[*_output].namespace": "is known from the call",
    "tools[*].allowed_callers": "says from where a tool may be called; no programs run here",
    "tools[*].defer_loading": SHOWN,
    "tools[*].output_schema": "describes what a tool returns, which the model sees when it does",
    **{
        f"tools[{kind}]*": HOSTED
        for kind in (
            "file_search computer computer_use_preview web_search web_search_2025_08_26 mcp code_interpreter "
            "programmatic_tool_calling image_generation local_shell shell tool_search web_search_preview "
            "web_search_preview_2025_03_11 apply_patch"
        ).split()
    },
}
ANTHROPIC: Mapping[str, str] = {
    "*cache_control*": CACHE,
    "betas": "switches on what is then asked for in a field of its own",
    "billing_policy": BILLING,
    "compaction": "has the server shorten a long conversation; here what is too long is refused",
    "context_management": "has the server shorten a long conversation; here what is too long is refused",
    "diagnostics": BILLING,
    "fallback_credit_token": BILLING,
    "fallbacks": "names other models, of which there is none here",
    "inference_geo": BILLING,
    "metadata": BILLING,
    "service_tier": "is of another's service: `priority` is this server's word",
    "speed": "is of another's service",
    "user_profile_id": BILLING,
    "workspace_id": BILLING,
    "thinking[*].block_binding*": STAMP,
    "output_config.task_budget*": "counts the tokens of a whole task, of which a server sees one request",
    "*.citations*": CITED,
    "messages[*].content[thinking].signature": STAMP,
    "messages[*].content[redacted_thinking].data": "can be read by Anthropic's servers alone",
    "messages[*].content[*].caller*": "says from where a call was made; no programs run here",
    "messages[*].content[*].toolset_name": "is known from the tool's name",
    "messages[*].output_config*": "sets the effort of one turn: that of the body is read",
    "messages[*].clear_at*": "has the server drop a message later; the client sends what it wants to be read",
    "tools*.allowed_callers*": "says from where a tool may be called; no programs run here",
    "tools*.defer_loading": SHOWN,
    "tools*.eager_input_streaming": "asks for what is always done",
    **{
        f"tools[{kind}*": HOSTED
        for kind in "web_search_ web_fetch_ code_execution_ tool_search_tool_ mcp_toolset advisor_".split()
    },
}
OLLAMA: Mapping[str, str] = {
    "keep_alive": "says when to unload the model: here it stays, and what it holds goes with whoever asked",
    "truncate": "has a long prompt cut: here it is refused",
    "shift": "has a full context cut: here the answer ends",
    "options.mirostat_*": "sets what `mirostat` switches on, which is refused",
    **{
        f"options.{name}": LOADING
        for name in (
            "num_ctx num_keep num_batch num_gpu main_gpu low_vram f16_kv logits_all vocab_only use_mmap use_mlock "
            "num_thread numa embedding_only draft_num_predict"
        ).split()
    },
}
LISTS = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES, "/v1/messages": ANTHROPIC, "/api": OLLAMA}


def names_in(passed_over: Mapping[str, str], within: str = "") -> frozenset[str]:
    """Return the names of the fields of a list that stand in the body itself, or right within one of its fields."""
    inner = (path.removeprefix(within) for path in passed_over if path.startswith(within))
    return frozenset(name for name in inner if name.isidentifier())


def why_passed_over(path: str, passed_over: Mapping[str, str]) -> str | None:
    """Return why a field is not read, or any within it; None where the list does not have it."""
    for known, why in passed_over.items():
        pattern = re.escape(known).replace(r"\*", ".*")
        if re.fullmatch(rf"{pattern}([.\[=].*)?", path):
            return why
    return None


class IgnoredFields:
    """Tells in the log which fields of bodies were ignored, each name once for as long as the server runs.

    Threads that parse bodies share it: at worst a name is told twice.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, request_id: str, names: Iterable[str]) -> None:
        """Log those of `names` that were not told before; a client chose them, so they are shown as literals."""
        new = [name for name in names if name not in self._told][:MOST_TOLD]
        if new and len(self._told) < MOST_NAMES:
            self._told.update(new)
            logger.info(
                "%s: ignored unknown fields: %s", request_id, literal(", ".join(new)), extra={"request_id": request_id}
            )
