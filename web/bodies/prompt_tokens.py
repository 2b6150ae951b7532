"""Prompts as token ids, at a cost that the model's context bounds.

A prompt that cannot fit is refused before the work on it is done: prompts that are too many before any is tokenised, a
conversation before the template renders it, a text before all of it is tokenised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from runtime.text.prompt_tokens import TooManyTokens, encode_end, encode_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel

TokenIds = tuple[int, ...]

TOO_LONG = "context_length_exceeded"
"""The code of the error for a prompt that does not fit."""


def split_prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> Sequence[str | list[int]]:
    """Return the prompts of a body as a sequence, whichever of the four forms the field has."""
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt[0], int):
        return [prompt]  # the schema let no mixed list through
    return prompt


def check_generations(prompts: int, choices: int, max_generations: int) -> None:
    """Check that a request has no more generations than the server can hold.

    Args:
        prompts: of the request.
        choices: for each prompt.
        max_generations: that slots and queue together can hold.

    Raises:
        RequestError: there are more.
    """
    if prompts * choices > max_generations:
        asked = f"{prompts} prompts" if choices == 1 else f"{choices} choices for each of {prompts} prompts"
        raise RequestError(
            f"{asked} are more than the {max_generations} that this server can hold.",
            param="n" if prompts == 1 else "prompt",
        )


def check_characters(characters: int, model: ServedModel, param: str) -> None:
    """Check that a text can fit into the context, without tokenising it.

    Raises:
        RequestError: even the longest tokens could not spell so many characters within the context.
    """
    if characters > model.context_length * model.tokenizer.longest_token:
        raise too_long(model, param)


def kept_tokens(given: int | None, model: ServedModel, max_tokens: int | None) -> int | None:
    """Return how many of a prompt's tokens are kept at most, the last ones; None for all.

    Args:
        given: the field `truncate_prompt_tokens`; -1 for as many as leave room for the answer.
        model: to be served from.
        max_tokens: of the answer; None where it has no limit.

    Raises:
        RequestError: none would be kept.
    """
    if given is None:
        return None
    kept = model.context_length - max(1, max_tokens or 0) if given < 0 else given
    if kept < 1:
        message = "'truncate_prompt_tokens' leaves nothing of the prompt."
        raise RequestError(message, param="truncate_prompt_tokens")
    return kept


def encode_prompt(
    text: str, model: ServedModel, param: str, *, add_special_tokens: bool = True, keep: int | None = None
) -> TokenIds:
    """Tokenise a prompt.

    Args:
        text: the prompt.
        model: whose tokenizer and context are used.
        param: the field that an error names.
        add_special_tokens: False for a text in which a chat template has written them.
        keep: how many tokens are kept, the last ones and what every text begins with; None for all.

    Raises:
        RequestError: the prompt is empty, or too long for the context.
    """
    if keep is not None:
        check_characters(len(text), model, param)
        begin = model.tokenizer.encode("") if add_special_tokens else []  # what a text begins with, for this model
        end = encode_end(model.tokenizer, text, max(0, keep - len(begin)))
        return check_token_ids((*begin, *end), model, param)
    try:
        ids = encode_within(model.tokenizer, text, model.context_length - 1, add_special_tokens=add_special_tokens)
    except TooManyTokens:
        raise too_long(model, param) from None
    return check_token_ids(tuple(ids), model, param)


def check_token_ids(ids: TokenIds, model: ServedModel, param: str) -> TokenIds:
    """Return the token ids of a prompt if the model can go on from them.

    Raises:
        RequestError: there are none, one is not in the vocabulary, or there is no room for one more token.
    """
    if not ids:
        raise RequestError("The prompt is empty.", param=param)
    if min(ids) < 0 or max(ids) >= model.vocab_size:
        raise RequestError(f"Token ids must be from 0 to {model.vocab_size - 1}.", param=param)
    if len(ids) >= model.context_length:
        raise too_long(model, param, len(ids))
    return ids


def too_long(model: ServedModel, param: str, tokens: int | None = None) -> RequestError:
    """Make the error for a prompt that does not fit; `tokens` is None if they were not counted to the end."""
    count = f"more than {model.context_length - 1}" if tokens is None else tokens
    return RequestError(
        f"This model's maximum context length is {model.context_length} tokens. However, your {param} resulted in "
        f"{count} tokens, and one more is needed for the completion. Please reduce the length of the {param}.",
        param=param,
        code=TOO_LONG,
    )
