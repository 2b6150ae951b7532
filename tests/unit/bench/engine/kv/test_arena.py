"""Counts of the program: copies of sequences alone, and the tokens of all streams."""

from __future__ import annotations

from actors.core.events import TransferBegins, TransferEnded
from bench.engine.kv.arena import STREAMS, Copying, Said
from runtime.step.transfer import Relocate, Save


def test_only_the_time_counts_in_which_a_sequence_is_copied() -> None:
    copying = Copying()
    copying.transfer_begins(TransferBegins((Save(0, 0, 64),), ()))
    copying.transfer_ended(TransferEnded())
    assert copying.seconds == 0.0
    copying.transfer_begins(TransferBegins((Save(0, 0, 64), Relocate(1, 128, 64, 64)), ()))
    copying.transfer_ended(TransferEnded())
    once = copying.seconds
    assert once > 0.0
    copying.transfer_ended(TransferEnded())
    assert copying.seconds == once


def test_the_rate_is_that_of_all_streams() -> None:
    said = Said(seconds=2.0)
    assert len(said.tokens) == STREAMS
    said.tokens[0] += [1, 2, 3]
    said.tokens[1] += [4]
    assert said.rate == 2.0
