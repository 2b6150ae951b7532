"""Prompts for filling in the middle, as token ids within the context; and those that may be such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from runtime.text.infill import InfillTokens
from runtime.text.prompt_tokens import TooManyTokens, encode_within
from web.bodies.prompt_tokens import check_characters, check_token_ids, encode_prompt, too_long

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
        files: names and texts of other files, for context; where not all of them fit, the last that do.
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


def refuse_truncation(kept: int | None) -> None:
    """Raise RequestError if so many tokens of a gap's prompt are to be kept, whose first ones say what it is."""
    if kept is not None:
        message = "'truncate_prompt_tokens' cannot go together with a gap."
        raise RequestError(message, param="truncate_prompt_tokens")


def infill_end_ids(model: ServedModel) -> tuple[int, ...]:
    """Return the tokens by which a model says that a gap is filled, whatever else ends its outputs."""
    tokens = InfillTokens.of(model.tokenizer)
    return () if tokens is None else tokens.ends


def infill_prompt(infill: Infill, model: ServedModel, param: str, *, room: int = 1) -> TokenIds:
    """Return the prompt for a gap.

    Args:
        infill: what is asked.
        model: to be served from.
        param: the field of the body that errors name.
        room: tokens of the context that other files are to leave for the answer.

    Raises:
        RequestError: the model was not made for it, or the prompt does not fit into the context.
    """
    tokens = infill_tokens(model, param)
    check_characters(sum(map(len, (infill.before, infill.after, infill.begun))), model, param)
    begin = model.tokenizer.encode("")  # what a text begins with, for this model
    gap = tokens.arrange(_encode(infill.before, model, param), _encode_inside(infill.after, model, param))
    gap += _encode_inside(infill.begun, model, param)
    left = model.context_length - room - len(begin) - len(gap)
    return check_token_ids((*begin, *_other_files(tokens, infill, model, left), *gap), model, param)


def _other_files(tokens: InfillTokens, infill: Infill, model: ServedModel, most: int) -> list[int]:
    """Return what shows the other files, in at most so many tokens; as few of the first are left out as can be."""
    name, last = (model.tokenizer.encode(text, add_special_tokens=False) for text in (REPOSITORY, f"{FILE_NAME}\n"))
    most -= len(tokens.with_files(name, (), last) or ())
    files: list[list[int]] = []
    for file, text in reversed(infill.files):
        try:
            ids = encode_within(model.tokenizer, f"{file or FILE_NAME}\n{text}\n", most, add_special_tokens=False)
        except TooManyTokens:
            break
        most -= len(ids) + 1  # with the token before it
        if most < 0:
            break
        files.insert(0, ids)
    if not files:
        return []
    shown = tokens.with_files(name, files, last)
    return [token_id for ids in files for token_id in ids] if shown is None else shown


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


def prompt_ids(prompt: str | list[int], suffix: str | None, model: ServedModel, *, keep: int | None = None) -> TokenIds:
    """Return the token ids of a completion's prompt; with a suffix, of the gap between the two.

    Args:
        prompt: as text, or as ids.
        suffix: what comes after the gap.
        model: to be served from.
        keep: how many of the tokens are kept, the last ones; None for all.

    Raises:
        RequestError: it is empty, does not fit into the context, or holds unknown token ids; or there is a suffix, and
            the model was not made to fill a gap.
    """
    if suffix:
        if not isinstance(prompt, str):
            raise RequestError("With a 'suffix', the prompt must be text.", param="suffix")
        refuse_truncation(keep)
        return infill_prompt(Infill(prompt, suffix), model, "suffix")
    if isinstance(prompt, str):
        return encode_prompt(prompt, model, "prompt", keep=keep)
    return check_token_ids(tuple(prompt if keep is None else prompt[-keep:]), model, "prompt")
