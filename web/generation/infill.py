"""Prompts for filling in the middle, as token ids within the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from runtime.text.infill import InfillTokens
from runtime.text.prompt_tokens import TooManyTokens, encode_within
from web.bodies.prompt_tokens import check_characters, check_token_ids, too_long

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from web.bodies.prompt_tokens import TokenIds

REPOSITORY = "myproject\n"
FILE_NAME = "filename"
"""Names where the client gives none: those that llama-server writes."""

MARK = "\N{WHITE SMILING FACE}"
"""A character that no tokenizer joins to what follows it, as Code Llama's and Codestral's own code has it."""


@dataclass(frozen=True, slots=True)
class Infill:
    """A gap to be filled.

    Attributes:
        before: the text before it.
        after: the text after it.
        begun: how what fills it begins.
        files: names and texts of other files, for context.
    """

    before: str
    after: str
    begun: str = ""
    files: Sequence[tuple[str, str]] = ()


def infill_tokens(model: ServedModel, param: str) -> InfillTokens:
    """Return a model's tokens for infilling.

    Raises:
        RequestError: it has none.
    """
    tokens = InfillTokens.of(model.tokenizer)
    if tokens is None:
        raise RequestError(
            f"'{param}' is not supported by this model: its tokenizer has no tokens for filling in the middle.",
            param=param,
            code="unsupported_parameter",
        )
    return tokens


def infill_prompt(infill: Infill, model: ServedModel, param: str) -> TokenIds:
    """Return the prompt for a gap.

    Args:
        infill: what is asked.
        model: to be served from.
        param: the field of the body that errors name.

    Raises:
        RequestError: the model was not made for it, or the prompt does not fit into the context.
    """
    tokens = infill_tokens(model, param)
    texts = [infill.before, infill.after, infill.begun, *(name + text for name, text in infill.files)]
    check_characters(sum(map(len, texts)), model, param)
    ids = model.tokenizer.encode("")  # what a text begins with, for this model
    if infill.files:
        ids += _other_files(tokens, infill, model, param)
    ids += tokens.arrange(_encode(infill.before, model, param), _encode_inside(infill.after, model, param))
    ids += _encode_inside(infill.begun, model, param)
    return check_token_ids(tuple(ids), model, param)


def _other_files(tokens: InfillTokens, infill: Infill, model: ServedModel, param: str) -> list[int]:
    files = [_encode(f"{name or FILE_NAME}\n{text}\n", model, param) for name, text in infill.files]
    shown = tokens.with_files(_encode(REPOSITORY, model, param), files, _encode(f"{FILE_NAME}\n", model, param))
    if shown is not None:
        return shown
    return [token_id for file in files for token_id in file]


def _encode(text: str, model: ServedModel, param: str) -> list[int]:
    try:
        return encode_within(model.tokenizer, text, model.context_length - 1, add_special_tokens=False)
    except TooManyTokens:
        raise too_long(model, param) from None


def _encode_inside(text: str, model: ServedModel, param: str) -> list[int]:
    """Encode a text that is not the beginning of one: without the space that some tokenizers put before that."""
    mark = _encode(MARK, model, param)
    if not text or not b"".join(map(model.tokenizer.token_bytes, mark)).startswith(b" "):
        return _encode(text, model, param)
    marked = _encode(MARK + text, model, param)
    return marked[len(mark) :] if marked[: len(mark)] == mark else _encode(text, model, param)
