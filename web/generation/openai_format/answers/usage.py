"""The cost of a request, as its response reports it: OpenAI's `usage` and llama-server's `timings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Finished
    from actors.core.generation import Timings as EngineTimings
    from web.generation.openai_format.answers.options import ResponseOptions


class PromptTokensDetails(TypedDict):
    """Details of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(TypedDict):
    """Details of the answer's tokens."""

    reasoning_tokens: Annotated[int, Field(description="What the model thought before it answered.")]
    accepted_prediction_tokens: NotRequired[
        Annotated[int, Field(description="Drafts that were right, beside a `prediction`.")]
    ]
    rejected_prediction_tokens: NotRequired[int]


class RunningUsage(TypedDict):
    """Usage of the request so far."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Usage(RunningUsage):
    """Usage of the request."""

    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class Timings(TypedDict):
    """Timings in the words of llama-server; milliseconds."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: NotRequired[int]
    draft_n_accepted: NotRequired[int]


class UsageCounter:
    """Adds up what the generations of one request report when they finish.

    Args:
        options: of the request.
    """

    def __init__(self, options: ResponseOptions) -> None:
        self._options = options
        self._finished: dict[int, Finished] = {}
        self._tokens = 0
        self._prompt_tokens = sum(len(prompt) for prompt in options.prompts[:: options.n])

    def add(self, event: Finished) -> None:
        """Count a generation that has finished."""
        self._finished[event.index] = event

    def add_token(self) -> None:
        """Count a token as it comes, for `running`."""
        self._tokens += 1

    def running(self) -> RunningUsage:
        """Return the usage so far, for chunks that say it."""
        return self._totals(self._tokens)

    def usage(self, reasoning_tokens: int = 0) -> Usage:
        """Return OpenAI's `usage`.  A prompt counts once; of its tokens those are cached that all its choices found."""
        details: CompletionTokensDetails = {"reasoning_tokens": reasoning_tokens}
        if self._options.predicted:
            drafted = sum(event.timings.draft_n for event in self._finished.values())
            accepted = sum(event.timings.draft_n_accepted for event in self._finished.values())
            details |= {"accepted_prediction_tokens": accepted, "rejected_prediction_tokens": drafted - accepted}
        return {
            **self._totals(sum(event.completion_tokens for event in self._finished.values())),
            "prompt_tokens_details": {"cached_tokens": self._cached_tokens()},
            "completion_tokens_details": details,
        }

    def _totals(self, completion_tokens: int) -> RunningUsage:
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self._prompt_tokens + completion_tokens,
        }

    def timings(self) -> Timings:
        """Return llama-server's `timings`, summed over the generations."""
        return timings([event.timings for event in self._finished.values()])

    def _cached_tokens(self) -> int:
        least: dict[int, int] = {}
        for index, event in self._finished.items():
            prompt = index // self._options.n
            least[prompt] = min(least.get(prompt, event.cached_tokens), event.cached_tokens)
        return sum(least.values())


def timings(parts: Sequence[EngineTimings]) -> Timings:
    """Return llama-server's `timings` of several generations together, with those of drafts if there were any."""
    prompt_n, prompt_ms = sum(part.prompt_n for part in parts), sum(part.prompt_ms for part in parts)
    predicted_n, predicted_ms = sum(part.predicted_n for part in parts), sum(part.predicted_ms for part in parts)
    figures: Timings = {
        "cache_n": sum(part.cache_n for part in parts),
        "prompt_n": prompt_n,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": _ratio(prompt_ms, prompt_n),
        "prompt_per_second": _ratio(1000 * prompt_n, prompt_ms),
        "predicted_n": predicted_n,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": _ratio(predicted_ms, predicted_n),
        "predicted_per_second": _ratio(1000 * predicted_n, predicted_ms),
    }
    if draft_n := sum(part.draft_n for part in parts):
        figures |= {"draft_n": draft_n, "draft_n_accepted": sum(part.draft_n_accepted for part in parts)}
    return figures


def _ratio(amount: float, by: float) -> float:
    return amount / by if by > 0 else 0.0
