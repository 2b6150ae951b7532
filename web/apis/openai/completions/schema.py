"""The body of `POST /v1/completions`."""

from __future__ import annotations

from web.bodies.fields import Prompt, Text, TopLogprobs
from web.generation.openai_format.schemas import GenerationBody


class CompletionBody(GenerationBody):
    """The body of `POST /v1/completions`."""

    prompt: Prompt
    logprobs: TopLogprobs | None = None
    echo: bool | None = None
    suffix: Text | None = None
