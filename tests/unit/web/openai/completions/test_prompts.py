"""A completion's prompts, in any of their forms."""

from __future__ import annotations

from tests.fakes.engine import BOS, completion


def tokens(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_a_prompt_has_four_forms() -> None:
    hi = (BOS, *tokens("hi"))
    assert completion(prompt="hi").request.prompts == (hi,)
    assert completion(prompt=["hi", "yo"]).request.prompts == (hi, (BOS, *tokens("yo")))
    assert completion(prompt=[1, 2]).request.prompts == ((1, 2),)
    assert completion(prompt=[[1, 2], [3]]).request.prompts == ((1, 2), (3,))


def test_choices_of_one_prompt_are_neighbours() -> None:
    parsed = completion(prompt=[[1], [2]], n=2, echo=True)
    assert parsed.request.prompts == ((1,), (1,), (2,), (2,))
    assert parsed.options.echo == ("\1", "\1", "\2", "\2")
