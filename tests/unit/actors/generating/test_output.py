"""The output of a generation of which a part was made elsewhere."""

from __future__ import annotations

from actors.core.generation import FinishReason, Token
from actors.generating.output import Output
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampledToken
from runtime.text.stop_strings import StopAutomaton
from runtime.text.text_stream import TextStream
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level

TOKENIZER = Tokenizer(byte_level())


def ids(text: str) -> list[int]:
    """One token for each character."""
    return [token_id for char in text for token_id in TOKENIZER.encode(char, add_special_tokens=False)]


class Made:
    """An output that goes on after a prompt, and what it emits."""

    def __init__(self, prompt: str, emitted: int, *, stop: str = "", min_tokens: int = 0, max_tokens: int = 9) -> None:
        self.emitted: list[Token] = []
        self.output = Output(
            0,
            ids(prompt),
            SamplingParams(seed=1, min_tokens=min_tokens),
            max_tokens=max_tokens,
            end_ids=(),
            text=TextStream(TOKENIZER, StopAutomaton((stop,) if stop else ()), continues=True),
            emit=self.emitted.append,
            emitted=emitted,
        )

    def accept(self, text: str) -> FinishReason | None:
        """Take the next tokens; why the output ends, or None."""
        reason = None
        for token_id in ids(text):
            reason = self.output.accept(SampledToken(token_id))
        return reason

    @property
    def text(self) -> str:
        """All that was emitted."""
        return "".join(token.text for token in self.emitted)


def test_what_was_made_elsewhere_counts_where_the_next_token_is_drawn() -> None:
    made = Made("xyab", 2)
    assert (made.output.next_sample().generated, made.output.next_sample().position) == (2, 4)
    made.accept("c")
    assert made.output.next_sample().generated == 3


def test_the_limit_is_of_what_is_made_here() -> None:
    made = Made("xyab", 2, max_tokens=2)
    assert made.accept("c") is None
    assert made.accept("d") is FinishReason.LENGTH
    assert (len(made.output), made.text) == (2, "cd")


def test_a_stop_string_that_began_elsewhere_ends_the_output_here() -> None:
    made = Made("xyaE", 2, stop="END")
    assert made.accept("N") is None
    assert made.accept("D") is FinishReason.STOP
    assert made.text == ""


def test_the_beginning_of_a_stop_string_that_is_none_is_sent_where_the_output_goes_on() -> None:
    made = Made("xyaE", 2, stop="END")
    made.accept("Nx")
    assert made.text == "ENx"


def test_a_stop_string_in_the_prompt_is_none() -> None:
    made = Made("xEa", 1, stop="EN")
    assert made.accept("N") is None


def test_stop_strings_are_held_back_until_so_many_tokens_were_made_in_all() -> None:
    assert Made("xyab", 2, stop="c", min_tokens=3).accept("c") is None
    assert Made("xyabd", 3, stop="c", min_tokens=3).accept("c") is FinishReason.STOP
