"""Constraint of an output by a grammar: one mask for each place, and an end to what could not be computed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.generating.constraint import Constraint
from runtime.errors import GrammarFailed
from runtime.grammar.masks import SLOW_SECONDS, Mask
from runtime.grammar.worker import InlineMasks


class Counting:
    """A matcher of at most three tokens, each one more than the last."""

    holds_text = True
    is_free = False

    def __init__(self) -> None:
        self.output: list[int] = []
        self.asked: list[list[int]] = []
        self.fails = False

    def accept(self, token_id: int) -> bool:
        """Take a token."""
        self.output.append(token_id)
        return len(self.output) == 3

    def mask_after(self, token_ids: Sequence[int]) -> bytes:
        """The token that follows these."""
        self.asked.append([*self.output, *token_ids])
        if self.fails:
            raise ValueError("a planted fault")
        return (1 << (len(self.output) + len(token_ids))).to_bytes(4, "little")

    def is_complete_after(self, token_ids: Sequence[int] = ()) -> bool:
        """Return whether there are three."""
        return len(self.output) + len(token_ids) == 3

    def count_valid(self, token_ids: Sequence[int]) -> int:
        """None is."""
        return 0

    def forced(self) -> list[int]:
        """The next."""
        return [len(self.output)]


class Later:
    """Computes nothing before it is taken."""

    def __init__(self) -> None:
        self.submitted: list[Mask] = []

    def submit(self, mask: Mask) -> None:
        """Keep it."""
        self.submitted.append(mask)


def test_there_is_one_mask_for_each_place() -> None:
    """So a draft is drawn under the mask that verifies it, and a step that is run again waits for none."""
    matcher = Counting()
    constraint = Constraint(matcher, InlineMasks())
    (first,) = constraint.masks()
    assert constraint.masks() == (first,)
    masks = constraint.masks([0, 1])
    assert masks[0] is first
    assert constraint.masks([0])[1] is masks[1]
    assert [mask.take() for mask in masks] == [b"\x01\0\0\0", b"\x02\0\0\0", b"\x04\0\0\0"]
    assert matcher.asked == [[], [0], [0, 1]]


def test_after_a_token_the_masks_are_others() -> None:
    matcher = Counting()
    constraint = Constraint(matcher, InlineMasks())
    before = constraint.masks([0])
    constraint.accept(0)
    (after,) = constraint.masks()
    assert after not in before
    assert after.take() == b"\x02\0\0\0"


def test_masks_are_submitted_before_anybody_needs_them() -> None:
    later, matcher = Later(), Counting()
    masks = Constraint(matcher, later).masks([0])
    assert later.submitted == [*masks]
    assert matcher.asked == []


def test_a_token_drawn_under_a_mask_that_failed_is_not_taken() -> None:
    matcher = Counting()
    constraint = Constraint(matcher, InlineMasks())
    matcher.fails = True
    constraint.masks()
    with pytest.raises(GrammarFailed, match="a planted fault"):
        constraint.accept(0)
    assert matcher.output == []


def test_a_mask_is_expected_to_take_what_those_before_it_took() -> None:
    """The first is expected to be slow: its grammar is not known."""
    matcher = Counting()
    constraint = Constraint(matcher, Later())

    def expected_after(seconds: float) -> float:
        (mask,) = constraint.masks()
        mask.take()
        mask.seconds = seconds
        constraint.accept(0)
        return constraint.masks()[0].expected

    assert constraint.masks()[0].expected >= SLOW_SECONDS
    quick = [expected_after(1e-6) for _ in range(5)]
    assert quick[0] < SLOW_SECONDS
    assert quick == sorted(quick, reverse=True)
    assert expected_after(0.3) >= SLOW_SECONDS
    assert expected_after(1e-6) >= SLOW_SECONDS, "the one that was slow is forgotten with the next"


def test_a_mask_that_nobody_took_says_nothing_of_the_next() -> None:
    constraint = Constraint(Counting(), Later())
    (first,) = constraint.masks()
    constraint.accept(0)
    assert constraint.masks()[0].expected == first.expected
