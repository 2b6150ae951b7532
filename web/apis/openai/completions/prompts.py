"""The prompts of a completion's body, as token ids and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.bodies.prompt_tokens import check_token_ids, encode_prompt
from web.generation.infill import Infill, infill_prompt, refuse_truncation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from runtime.text.tokenizer import Tokenizer
    from web.bodies.prompt_tokens import TokenIds


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


def prompt_texts(prompts: Sequence[str | list[int]], tokenizer: Tokenizer) -> list[str]:
    """Return the prompts as text, for `echo`."""
    return [prompt if isinstance(prompt, str) else tokenizer.decode(prompt) for prompt in prompts]
