"""Truncation of a conversation that is too long: as much of its end as fits is left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.chat.conversation import Conversation, Turn
from runtime.errors import RequestError
from tests.fakes.engine import model
from web.apis.responses.conversion import fitting_prompt
from web.generation.prompts import conversation_prompt

ROLES = st.sampled_from(["user", "assistant", "system", "tool"])
TURNS = st.lists(st.builds(Turn, ROLES, st.text("ab", max_size=12)), min_size=1, max_size=12)


def fits(turns: list[Turn], context: int) -> bytes | None:
    """The prompt of these turns; None if it does not fit."""
    try:
        return bytes(conversation_prompt(Conversation(turns), model(context_length=context), "input")[0])
    except RequestError:
        return None


@settings(max_examples=150, deadline=None)
@given(TURNS, st.integers(20, 300))
def test_the_longest_end_that_fits_is_kept_beside_what_the_system_says(turns: list[Turn], context: int) -> None:
    starts = [0, *[number for number, turn in enumerate(turns) if turn.role == "user"][1:]]
    ends = [[turn for number, turn in enumerate(turns) if number >= start or turn.role == "system"] for start in starts]
    expected = next((prompt for prompt in (fits(end, context) for end in ends) if prompt is not None), None)
    if expected is None:
        with pytest.raises(RequestError, match="maximum context length"):
            fitting_prompt(Conversation(turns), model(context_length=context), "input")
    else:
        assert bytes(fitting_prompt(Conversation(turns), model(context_length=context), "input")[0]) == expected
