"""The inputs of an embedding request as prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.bodies.prompt_tokens import check_token_ids, encode_prompt
from web.process.limits import MAX_INPUTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from runtime.step.prompt_rows.wanted import Pooling
    from web.bodies.prompt_tokens import TokenIds


def input_ids(inputs: Sequence[str | list[int]], model: ServedModel, param: str) -> tuple[TokenIds, ...]:
    """Return the token ids of each input.

    Args:
        inputs: texts, or token ids.
        model: to be served from.
        param: the field of the body that errors name.

    Raises:
        RequestError: there are too many of them; or one is empty, does not fit into the context, or holds unknown ids.
    """
    if len(inputs) > MAX_INPUTS:
        raise RequestError(f"'{param}' has {len(inputs)} inputs; at most {MAX_INPUTS} are possible.", param=param)
    return tuple(
        encode_prompt(one, model, param) if isinstance(one, str) else check_token_ids(tuple(one), model, param)
        for one in inputs
    )


def check_dimensions(dimensions: int | None, model: ServedModel) -> None:
    """Check that nobody asks for shorter vectors: to cut them off is honest only for a model that was trained for it.

    Raises:
        RequestError: somebody does.
    """
    size = model.facts.hidden_size
    if dimensions not in (None, size):
        raise RequestError(
            f"'dimensions' is not supported: vectors of this model have {size} numbers, and cut short they would mean "
            "less than those of a model that was trained for it.",
            param="dimensions",
            code="unsupported_parameter",
        )


def pooling_of(model: ServedModel) -> Pooling:
    """Return how states become a vector.

    Raises:
        RequestError: the server was started without embeddings.
    """
    if model.pooling is None:
        raise RequestError("This server computes no embeddings: it was started with --pooling none.", code="no_pooling")
    return model.pooling
