"""A body that was understood: what the engine is to do, and how the answer is to look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from actors.core.generation import GenerationRequest
from runtime.chat.chat import ChatPrompt
from runtime.text.stop_strings import StopAutomaton
from web.bodies.fields import Priority, RepetitionPenalty
from web.generation.control.fields import ControlFields, control_of
from web.generation.sampling import SamplingFields, allowed_ids, bad_words, end_ids, sampling_params

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.loading.served import ServedModel
    from web.bodies.fields import ServiceTier
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.answer import Formatter

OptionsT = TypeVar("OptionsT")

PLAIN = ChatPrompt("")
"""The prompt of a text that any text may follow."""


class CommonFields(SamplingFields):
    """Parameters of bodies that generate, which `generation_request` reads: those that cede adds to any API's own."""

    repetition_penalty: RepetitionPenalty | None = None
    ignore_eos: bool | None = None
    cache_prompt: bool | None = None
    speculate: bool | None = None
    cede: ControlFields | None = None
    priority: Priority | None = None


@dataclass(frozen=True, slots=True)
class Asked(Generic[OptionsT]):
    """A request that was understood, of any API; made by a pure function.

    Attributes:
        request: what the engine is to do.
        options: how to answer.
        stream: whether to answer with a stream of events.
        formatter_of: makes what shows the answer; see `formatter`.
    """

    request: GenerationRequest
    options: OptionsT
    stream: bool
    formatter_of: Callable[[OptionsT, int | None], Formatter]

    def formatter(self, page_bytes: int | None = None) -> Formatter:
        """Return a fresh formatter of the answer.

        Args:
            page_bytes: of the pages that the whole answer is held in; None for a stream that nobody keeps.
        """
        return self.formatter_of(self.options, page_bytes)


def generation_request(
    fields: Mapping[str, Any],
    model: ServedModel,
    id: str,
    prompts: Sequence[TokenIds],
    prompt: ChatPrompt = PLAIN,
    *,
    max_tokens: int | None,
    logprobs: int | None = None,
    further_ends: tuple[int, ...] = (),
    **more: Any,  # noqa: ANN401
) -> GenerationRequest:
    """Make the request to the engine.  What bodies say alike is read here, and nowhere else.

    Args:
        fields: of a body, validated, in the words of OpenAI and vLLM; those that are not known here are not looked at.
        model: to be served from.
        id: of the request; a new one.
        prompts: token ids.
        prompt: how the answer is to be read, and what it must be.
        max_tokens: the client's limit, cut to the context, for many send a large one; None for all that there is room.
        logprobs: alternatives to show for each token; None for no log-probabilities.
        further_ends: tokens that end the answer beside the client's.
        more: fields of the request that only some APIs have.

    Raises:
        RequestError: what should be a token id is none, or tokens are chosen beside a grammar that does so.
    """
    room = model.context_length - min(map(len, prompts))
    stops = fields.get("stop") or ()
    chosen = prompt.grammar is not None or bool(fields.get("allowed_token_ids"))
    sampling = replace(
        sampling_params(fields, model, logprobs, fields.get("logit_bias")),
        bad_words=bad_words(fields.get("bad_words"), model, chosen=chosen),
    )
    return GenerationRequest(
        id=id,
        prompts=tuple(prompts),
        sampling=sampling,
        max_tokens=None if max_tokens is None else min(max_tokens, room),
        # Built here because the engine would do so in the event loop.
        stop=StopAutomaton(
            [stops] if isinstance(stops, str) else stops, kept=bool(fields.get("include_stop_str_in_output"))
        ),
        ignore_eos=bool(fields.get("ignore_eos")),
        end_ids=(*end_ids(fields.get("stop_token_ids"), model), *further_ends),
        allowed=allowed_ids(fields.get("allowed_token_ids"), model, has_grammar=prompt.grammar is not None),
        cache_prompt=fields.get("cache_prompt") is not False,
        speculate=fields.get("speculate") is not False,
        visible=prompt.visible_ids(model.tokenizer),
        grammar=prompt.grammar,
        session=fields.get("prompt_cache_key") or None,
        control=control_of(fields.get("cede")),
        priority=priority_of(fields.get("priority"), fields.get("service_tier")),
        **more,
    )


PRIORITIES = {"priority": -10, "auto": 0, "default": 0, "scale": 0, "flex": 10}
"""What each tier means: the lower, the earlier, as in vLLM."""


def priority_of(priority: int | None, tier: ServiceTier | None = None) -> int:
    """Return the priority of a request's body: the number that it gives, or else what its tier means."""
    return PRIORITIES[tier or "default"] if priority is None else priority


def tier_of(priority: int) -> Literal["flex", "default", "priority"]:
    """Return the tier that a request of this priority is served in."""
    if priority <= PRIORITIES["priority"]:
        return "priority"
    return "flex" if priority >= PRIORITIES["flex"] else "default"
