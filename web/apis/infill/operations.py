"""The routes that fill in the middle, for the OpenAPI document."""

from __future__ import annotations

from web.apis.infill.objects import InfillAnswer, InfillPiece
from web.apis.infill.schemas import FimBody, InfillBody
from web.generation.control.operations import CONTROL_HEADERS
from web.generation.openai_format.answers.objects import Error
from web.generation.openai_format.chat.answers import ChatCompletion, ChatCompletionChunk
from web.openapi.operations import ANY_ROUTE, GENERATES, Api, Operation, Reply

INFILL = Api(
    "Infill",
    "What fills a gap between two texts, in llama-server's shape and in Mistral's.",
    Error,
    (
        Operation(
            "post",
            "/infill",
            "infill",
            "Fill a gap, as llama-server does; refused where the model has no tokens for that",
            {200: Reply.generated(InfillAnswer, InfillPiece)},
            InfillBody,
            {"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n", "n_predict": 16},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/v1/fim/completions",
            "create_fim_completion",
            "Fill a gap, as Mistral's API does; without a suffix, go on with a text",
            {200: Reply.generated(ChatCompletion, ChatCompletionChunk)},
            FimBody,
            {"model": "any", "prompt": "def add(a, b):", "max_tokens": 16},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | GENERATES,
        ),
    ),
)
