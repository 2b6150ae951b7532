"""The prompts in the bodies of OpenAI's endpoints, as token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError
from web.bodies.prompt_tokens import check_characters, check_token_ids, encode_prompt
from web.bodies.strict_model import refuse_unsupported
from web.openai.schemas import UNSUPPORTED_IN_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from runtime.text.chat import ChatTemplate
    from runtime.text.tokenizer import Tokenizer
    from web.bodies.prompt_tokens import TokenIds
    from web.openai.schemas import ChatBody, Message

RESERVED_TEMPLATE_NAMES = frozenset({"messages", "add_generation_prompt"})
"""Variables of the chat template that a client may not set."""

OPEN_END = "<<the model continues here>>"
"""Marks a place in a rendered conversation, which is cut off there."""

# --- conversations ------------------------------------------------------------------------------------------------


def chat_prompt(body: ChatBody, model: ServedModel) -> TokenIds:
    """Return the token ids of a conversation.

    Raises:
        RequestError: it cannot be rendered, or does not fit into the context.
    """
    text = render_chat(body, model)
    return encode_prompt(text, model, "messages", add_special_tokens=False)  # the template has written them


def render_chat(body: ChatBody, model: ServedModel) -> str:
    """Return a conversation as the model's chat template writes it.

    Raises:
        RequestError: there is no template, it fails, or the messages cannot fit into the context.
    """
    if model.chat_template is None:
        raise RequestError("This model has no chat template; use /v1/completions.", param="messages")
    variables = body.chat_template_kwargs or {}
    if clash := RESERVED_TEMPLATE_NAMES & variables.keys():
        raise RequestError(f"'chat_template_kwargs' must not set '{min(clash)}'.", param="chat_template_kwargs")
    messages = [template_message(message, index) for index, message in enumerate(body.messages)]
    # A template may drop some of it; but nobody sends more than fits in order to have it dropped.
    check_characters(sum(len(message["content"]) for message in messages), model, "messages")
    if body.continue_final_message:
        return _render_open_ended(messages, body, model.chat_template, variables)
    add_prompt = body.add_generation_prompt is not False
    return model.chat_template.render(messages, add_generation_prompt=add_prompt, **variables)


def _render_open_ended(
    messages: list[dict[str, Any]], body: ChatBody, template: ChatTemplate, variables: dict[str, Any]
) -> str:
    """Return the conversation up to the end of the last message's content, for the model to go on there."""
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
    """Return a message as chat templates expect it: with `system` for OpenAI's `developer`, and content as one text."""
    refuse_unsupported(message, UNSUPPORTED_IN_MESSAGES, f"messages.{index}.")
    content = message.content
    fields: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": content if isinstance(content, str) else "\n".join(part.text for part in content),
    }
    optional = {"name": message.name, "tool_call_id": message.tool_call_id}
    return fields | {name: value for name, value in optional.items() if value is not None}


# --- texts and ids ------------------------------------------------------------------------------------------------


def split_prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> Sequence[str | list[int]]:
    """Return the prompts of a completion as a sequence, whichever of the four forms the field has."""
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt[0], int):
        return [prompt]  # the schema let no mixed list through
    return prompt


def prompt_ids(prompt: str | list[int], model: ServedModel) -> TokenIds:
    """Return the token ids of a completion's prompt.

    Raises:
        RequestError: it is empty, does not fit into the context, or holds unknown token ids.
    """
    if isinstance(prompt, str):
        return encode_prompt(prompt, model, "prompt")
    return check_token_ids(tuple(prompt), model, "prompt")


def prompt_texts(prompts: Sequence[str | list[int]], tokenizer: Tokenizer) -> list[str]:
    """Return the prompts as text, for `echo`."""
    return [prompt if isinstance(prompt, str) else tokenizer.decode(prompt) for prompt in prompts]
