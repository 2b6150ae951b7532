"""Prompts: what a body holds of them, as token ids, at a cost that the context bounds.

What is too much is refused before it is worked on: too many prompts before any of them is tokenised, a conversation
that cannot fit before the template renders it, a text that cannot fit before all of it is tokenised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError
from runtime.text.prompt_tokens import TooManyTokens, encode_within
from web.openai import schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from runtime.text.chat import ChatTemplate
    from runtime.text.tokenizer import Tokenizer
    from web.openai.schemas import ChatBody, Message

TokenIds = tuple[int, ...]

RESERVED_TEMPLATE_NAMES = frozenset({"messages", "add_generation_prompt"})
OPEN_END = "<<the model continues here>>"  # marks a place in a rendered template, and is cut off again


def check_number(prompts: int, choices: int, most: int) -> None:
    """Raises RequestError for more generations in one request than the server's slots and queue can ever hold."""
    if prompts * choices > most:
        asked = f"{prompts} prompts" if choices == 1 else f"{choices} choices for each of {prompts} prompts"
        raise RequestError(
            f"{asked} are more than the {most} that this server can hold.", param="n" if prompts == 1 else "prompt"
        )


# --- conversations ------------------------------------------------------------------------------------------------


def chat_prompt(body: ChatBody, model: ServedModel) -> TokenIds:
    """The conversation's token ids.  Raises RequestError."""
    return _encode(render_chat(body, model), model, "messages", add_special_tokens=False)  # the template wrote them


def render_chat(body: ChatBody, model: ServedModel) -> str:
    """The conversation as the model's chat template writes it.  Raises RequestError."""
    if model.chat_template is None:
        raise RequestError("This model has no chat template; use /v1/completions.", param="messages")
    variables = body.chat_template_kwargs or {}
    if clash := RESERVED_TEMPLATE_NAMES & variables.keys():
        raise RequestError(f"'chat_template_kwargs' must not set '{min(clash)}'.", param="chat_template_kwargs")
    messages = [template_message(message, index) for index, message in enumerate(body.messages)]
    # A template may drop or strip some of it, but nobody sends that much to be dropped.
    if sum(len(message["content"]) for message in messages) > _most_characters(model):
        raise _too_long(model, "messages")
    if body.continue_final_message:
        return _render_open_ended(messages, body, model.chat_template, variables)
    add_prompt = body.add_generation_prompt is not False
    return model.chat_template.render(messages, add_generation_prompt=add_prompt, **variables)


def _render_open_ended(
    messages: list[dict[str, Any]], body: ChatBody, template: ChatTemplate, variables: dict[str, Any]
) -> str:
    """The conversation up to the end of the last message's content, for the model to go on there."""
    if body.add_generation_prompt:
        raise RequestError(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            param="continue_final_message",
        )
    messages[-1]["content"] += OPEN_END
    shown, mark, _ = template.render(messages, add_generation_prompt=False, **variables).rpartition(OPEN_END)
    if not mark:
        raise RequestError("The chat template hides the last message.", param="continue_final_message")
    return shown


def template_message(message: Message, index: int) -> dict[str, Any]:
    """One message as templates expect it: OpenAI's developer is everyone else's system; content is text."""
    schemas.refuse_unsupported(message, schemas.UNSUPPORTED_IN_MESSAGES, f"messages.{index}.")
    content = message.content
    fields: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": content if isinstance(content, str) else "\n".join(part.text for part in content),
    }
    optional = {"name": message.name, "tool_call_id": message.tool_call_id}
    return fields | {name: value for name, value in optional.items() if value is not None}


# --- texts and ids ------------------------------------------------------------------------------------------------


def as_prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> Sequence[str | list[int]]:
    """The prompts of a completion, in whichever of the four forms they came."""
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt[0], int):
        return [prompt]  # the schema let no mixed list through
    return prompt


def prompt_ids(prompt: str | list[int], model: ServedModel) -> TokenIds:
    """A completion's prompt as token ids, all of them known.  Raises RequestError."""
    if isinstance(prompt, str):
        return _encode(prompt, model, "prompt")
    return _checked(tuple(prompt), model, "prompt")


def prompt_texts(prompts: Sequence[str | list[int]], tokenizer: Tokenizer) -> list[str]:
    """The prompts as text, for `echo`."""
    return [prompt if isinstance(prompt, str) else tokenizer.decode(prompt) for prompt in prompts]


def _encode(text: str, model: ServedModel, param: str, *, add_special_tokens: bool = True) -> TokenIds:
    try:
        ids = tuple(
            encode_within(model.tokenizer, text, model.context_length - 1, add_special_tokens=add_special_tokens)
        )
    except TooManyTokens:
        raise _too_long(model, param) from None
    return _checked(ids, model, param)


def _checked(prompt: TokenIds, model: ServedModel, param: str) -> TokenIds:
    """Raises RequestError unless a prompt has tokens, all of them known, and leaves room for one more."""
    if not prompt:
        raise RequestError("The prompt is empty.", param=param)
    if min(prompt) < 0 or max(prompt) >= model.vocab_size:
        raise RequestError(f"Token ids must be from 0 to {model.vocab_size - 1}.", param=param)
    if len(prompt) >= model.context_length:
        raise _too_long(model, param, len(prompt))
    return prompt


def _too_long(model: ServedModel, param: str, tokens: int | None = None) -> RequestError:
    """`tokens`: None if they were not counted to the end."""
    count = f"more than {model.context_length - 1}" if tokens is None else tokens
    return RequestError(
        f"This model's maximum context length is {model.context_length} tokens. However, your {param} resulted in "
        f"{count} tokens, and one more is needed for the completion. Please reduce the length of the {param}.",
        param=param,
        code="context_length_exceeded",
    )


def _most_characters(model: ServedModel) -> int:
    """More than these cannot be spelled by as many tokens as the context holds."""
    return model.context_length * model.tokenizer.longest_token
