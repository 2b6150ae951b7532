"""Receipts: what they say of a cancel, and how many are kept."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from actors.core.receipts import CancelReason, Receipt
from actors.manager.receipt_log import ReceiptLog


def receipt(n: int, reason: CancelReason = CancelReason.DISCONNECT) -> Receipt:
    return Receipt(
        request_id=f"r{n}",
        index=0,
        reason=reason,
        phase="decode",
        detected_at=1.0,
        last_kernel_at=1.1,
        slot_freed_at=1.2,
        prompt_tokens=10,
        cached_tokens=4,
        computed_tokens=7,
        kept_tokens=6,
        wasted_tokens=1,
        layers_after_cancel=1,
        drafted_tokens=0,
        accepted_tokens=0,
    )


def test_newest_first_and_no_more_than_asked() -> None:
    log = ReceiptLog(float)
    for n in range(5):
        log.add(receipt(n))
    assert [entry.request_id for entry in log.newest(3)] == ["r4", "r3", "r2"]
    assert len(log.newest(100)) == 5


@pytest.mark.parametrize("limit", [0, -1])
def test_none_asked_none_given(limit: int) -> None:
    log = ReceiptLog(float)
    log.add(receipt(0))
    assert log.newest(limit) == []


def test_old_receipts_go_but_are_counted() -> None:
    log = ReceiptLog(float, capacity=3)
    for n in range(5):
        log.add(receipt(n, CancelReason.OPERATOR if n % 2 else CancelReason.DISCONNECT))
    assert [entry.request_id for entry in log.newest(10)] == ["r4", "r3", "r2"]
    assert log.counts[CancelReason.DISCONNECT] == 3
    assert log.counts[CancelReason.OPERATOR] == 2


def test_every_reason_has_a_count_from_the_start() -> None:
    assert ReceiptLog(float).counts == dict.fromkeys(CancelReason, 0)


def test_receipts_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        receipt(0).reason = CancelReason.FAULT  # type: ignore[misc]
