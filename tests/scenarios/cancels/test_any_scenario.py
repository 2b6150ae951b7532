"""Any engine, any clients, any faults: hypothesis looks for a script that breaks an invariant, and shortens it.

The rules write a scenario; it is played at the end, in virtual time.  What fails is printed as the calls that wrote it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from runtime.loading.served import Proposer
from runtime.testing.faults import (
    CancelAt,
    ClockJump,
    DeviceError,
    Fault,
    FaultPlan,
    MailboxFlood,
    NotFinite,
    OutOfMemory,
    Shutdown,
    SlowStep,
    ThreadDeath,
    TransferError,
)
from tests.sim.play import play
from tests.sim.scenario import Retry, Scenario, Visit

milliseconds = st.integers(1, 150).map(lambda n: n / 1000)
sometimes = st.one_of(st.none(), st.none(), milliseconds)


class AnyScenario(RuleBasedStateMachine):
    """Times are in virtual seconds; `wait` lets them pass."""

    def __init__(self) -> None:
        super().__init__()
        self.scenario: Scenario | None = None
        self.now = 0.0
        self.visits: list[Visit] = []
        self.faults: list[Fault] = []

    @initialize(
        seed=st.integers(0, 9),
        slots=st.integers(1, 3),
        queue=st.sampled_from([20, 1, 0]),
        queue_timeout=st.sampled_from([None, 0.03]),
        chunk_tokens=st.sampled_from([None, 5, 64]),
        layers=st.integers(1, 3),
        ram=st.sampled_from([0, 2, 100]),
        speculate=st.sampled_from(Proposer),
        draft_tokens=st.sampled_from([1, 3, None]),
        cursed_blocks=st.booleans(),
        lies=st.sampled_from([0.0, 0.0, 0.3]),
        audit_share=st.sampled_from([0.0, 0.5]),
    )
    def serve(self, **how: Any) -> None:  # noqa: ANN401
        """Choose the server."""
        self.scenario = Scenario(
            **how,
            step_seconds=(0.002, 0.0001),
            disk=0,
            piece=2,
            block_seconds=0.003,
            hold_seconds=0.05,
            accuracy=0.8,
            end_ids=(),
            visits=(),
            recovery_seconds=0.02,
            plan=FaultPlan(),
        )

    @rule(time=milliseconds)
    def wait(self, time: float) -> None:
        """Let time pass before the next client."""
        self.now += time

    @rule(
        conversation=st.integers(0, 2),
        shared=st.sampled_from([0, 10, 64, 65, 130, 330]),
        own=st.sampled_from([1, 5, 30]),
        cursed=st.integers(0, 9).map(lambda n: n == 9),
        generations=st.sampled_from([1, 2]),
        max_tokens=st.integers(1, 12),
        cache_prompt=st.booleans(),
        speculate=st.booleans(),
        timeout=sometimes,
        hang_up_after=st.one_of(st.none(), st.integers(0, 8)),
        hang_up_at=sometimes,
        deleted_at=sometimes,
        pause=st.sampled_from([0.0, 0.02]),
        reads=st.integers(0, 9).map(bool),
        retries=st.lists(
            st.builds(
                Retry,
                after=st.sampled_from([0.0, 0.05]),
                forgets=st.sampled_from([0, 1, 60]),
                adds=st.integers(0, 5),
            ),
            max_size=2,
        ).map(tuple),
    )
    def client(self, **how: Any) -> None:  # noqa: ANN401
        """Let a client come."""
        self.visits.append(Visit(arrives=self.now, **how))

    @rule(
        kind=st.sampled_from([DeviceError, OutOfMemory, ThreadDeath]),
        step=st.integers(1, 30),
        layer=st.integers(0, 2),
        drafting=st.booleans(),
    )
    def device_fails(self, kind: Any, **when: Any) -> None:  # noqa: ANN401
        """Plan an error of the device."""
        self.faults.append(kind(**when))

    @rule(step=st.integers(1, 30), drafting=st.booleans())
    def logits_are_not_finite(self, **when: Any) -> None:  # noqa: ANN401
        """Plan logits that are NaN."""
        self.faults.append(NotFinite(**when))

    @rule(step=st.integers(1, 30), layer=st.integers(0, 2), seconds=st.sampled_from([0.1, 5.0]))
    def device_is_slow(self, **when: Any) -> None:  # noqa: ANN401
        """Plan a layer that takes long."""
        self.faults.append(SlowStep(**when))

    @rule(transfer=st.integers(1, 6))
    def kv_is_not_moved(self, transfer: int) -> None:
        """Plan a transfer that fails."""
        self.faults.append(TransferError(transfer=transfer))

    @rule(step=st.integers(1, 30), requests=st.integers(1, 30))
    def crowd(self, **when: Any) -> None:  # noqa: ANN401
        """Plan a crowd that comes and is gone."""
        self.faults.append(MailboxFlood(**when))

    @rule(step=st.integers(1, 30), seconds=st.sampled_from([0.05, 10.0]))
    def clock_jumps(self, **when: Any) -> None:  # noqa: ANN401
        """Plan a jump of the clock."""
        self.faults.append(ClockJump(**when))

    @rule(actor=st.sampled_from(["queue", "restore", "prefill", "decode"]), checkpoint=st.integers(1, 20))
    def operator_cancels(self, actor: Any, checkpoint: int) -> None:  # noqa: ANN401
        """Plan a cancel at a checkpoint."""
        self.faults.append(CancelAt(actor=actor, checkpoint=checkpoint))

    @rule(step=st.integers(10, 30), grace=st.sampled_from([0.0, 0.02]))
    def shut_down(self, **when: Any) -> None:  # noqa: ANN401
        """Plan the end of the server."""
        self.faults.append(Shutdown(**when))

    def teardown(self) -> None:
        """Play what was chosen."""
        if self.scenario is not None and self.visits:
            play(replace(self.scenario, visits=tuple(self.visits), plan=FaultPlan(tuple(self.faults))))


AnyScenario.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=15,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_any_scenario = AnyScenario.TestCase
