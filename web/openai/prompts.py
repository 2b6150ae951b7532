"""The prompts in the bodies of OpenAI's endpoints, as token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.conversation import Conversation, Turn
from runtime.errors import RequestError
from web.bodies.prompt_tokens import check_token_ids, encode_prompt
from web.bodies.strict_model import refuse_unsupported
from web.openai.schemas import UNSUPPORTED_IN_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from runtime.text.tokenizer import Tokenizer
    from web.bodies.prompt_tokens import TokenIds
    from web.openai.schemas import ChatBody, Message

# --- conversations ------------------------------------------------------------------------------------------------


def conversation_of(body: ChatBody) -> Conversation:
    """Return what a chat's body asks of the model.

    Raises:
        RequestError: its fields contradict each other, or ask for what cede does not do.
    """
    if body.continue_final_message and body.add_generation_prompt:
        raise RequestError(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            param="continue_final_message",
        )
    return Conversation(
        turns=[_turn(message, index) for index, message in enumerate(body.messages)],
        variables=body.chat_template_kwargs or {},
        add_generation_prompt=body.add_generation_prompt is not False,
        continue_final=bool(body.continue_final_message),
    )


def _turn(message: Message, index: int) -> Turn:
    """Return a message with `system` for OpenAI's `developer`, and content as one text."""
    refuse_unsupported(message, UNSUPPORTED_IN_MESSAGES, f"messages.{index}.")
    content = message.content
    return Turn(
        role="system" if message.role == "developer" else message.role,
        content=content if isinstance(content, str) else "\n".join(part.text for part in content),
        tool_call_id=message.tool_call_id,
        name=message.name,
    )


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
