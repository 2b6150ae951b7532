"""A scenario: an engine, clients and faults, all drawn from one integer."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from actors.control import NO_CONTROL, Control
from actors.core.generation import GenerationRequest
from runtime.kv.rings import Rings
from runtime.loading.served import Proposer
from runtime.step.prompt_rows.wanted import NO_OUTPUTS, Pooling, PromptOutputs
from runtime.testing.faults import (
    BitFlip,
    CancelAt,
    ClockJump,
    DeviceError,
    DiskError,
    Fault,
    FaultPlan,
    MailboxFlood,
    NotFinite,
    OutOfMemory,
    ShortWrite,
    Shutdown,
    SlowRead,
    SlowStep,
    ThreadDeath,
    TransferError,
)
from tests.sim.clients import GREEDY
from tests.sim.detached.visits import Leaving, leavers
from tests.sim.device import CULPRIT, VOCABULARY
from tests.sim.grammars import Rule, drawn_rule
from tests.sim.groups.drawn import GroupEnd, with_groups
from tests.sim.kv.places import with_small_arena
from tests.sim.kv.states import FIRST_SEED, with_states
from tests.sim.preemption.drawn import with_preemption
from tests.sim.warm.drawn import with_warm

CONTEXT = 512
OWNERS = ("alice", "bob", None)
LOOKED_UP = 5  # tokens of a vocabulary so small that pairs of them come again, for drafts that are looked up


@dataclass(frozen=True, slots=True)
class Retry:
    """The client comes back `after` some seconds: it drops the last tokens of what it has, and adds some of its own."""

    after: float
    forgets: int
    adds: int


@dataclass(frozen=True, slots=True)
class Visit:
    """Visit of one client.  Times are virtual seconds, after its arrival but for that itself."""

    arrives: float
    conversation: int  # which of the shared texts its prompt begins with,
    shared: int  # and with how many tokens of it
    own: int  # tokens that follow
    cursed: bool  # the device raises over its last prompt token
    generations: int
    max_tokens: int
    cache_prompt: bool
    speculate: bool
    timeout: float | None
    hang_up_after: int | None  # events
    hang_up_at: float | None
    deleted_at: float | None
    pause: float  # between two reads
    reads: bool  # else it stalls
    retries: tuple[Retry, ...]
    rule: Rule | None = None  # which its outputs are held to
    session: str | None = None  # by which name the client goes
    outputs: PromptOutputs = NO_OUTPUTS  # of its prompts
    priority: int = 0
    weight: float = 1.0  # of its owner's share
    control: Control = NO_CONTROL  # what it says of its fate
    leaving: Leaving | None = None  # its request may outlive its client, who leaves and comes back


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that happens, but for the scheduler's choices; those follow from `seed` too."""

    seed: int
    slots: int
    queue: int
    queue_timeout: float | None
    chunk_tokens: int | None
    layers: int
    step_seconds: tuple[float, float]  # of a step, and of each row
    ram: int  # blocks; 0 keeps nothing
    disk: int  # blocks; 0 for no such tier
    piece: int  # blocks
    block_seconds: float  # to move one
    hold_seconds: float
    audit_share: float
    speculate: Proposer
    draft_tokens: int | None
    accuracy: float
    end_ids: tuple[int, ...]
    visits: tuple[Visit, ...]
    cursed_blocks: bool  # KV that comes from a tier does not bear a step
    lies: float  # share of the blocks that lie, of those that are kept
    recovery_seconds: float  # of a device that was lost
    plan: FaultPlan
    rings: Rings | None = None  # of a model with a windowed layer
    owners: tuple[str | None, ...] = (None,)  # of the visits, in turns; isolated from one another if there are several
    late_masks: bool = False  # nobody computes a mask before the device needs it
    ageing: float = 3.0  # seconds that count as one level of priority
    preemption: str = "off"  # who is more important takes slots of those who are less so
    state_buffers: int = 0  # of a model with a recurrent layer
    positions: int | None = None  # of the arena; None for as many as all slots have at their longest
    burst_seconds: float | None = None  # of steps that follow one another on the device
    instruments: bool = True  # the server's own are attached: feed, traces, recording, metrics
    group_ends: tuple[GroupEnd, ...] = ()


def draw(seed: int) -> Scenario:
    """The scenario of a seed.

    In a third some blocks lie; in a third of the others outputs have grammars.  In a third of all a layer has a window,
    clients name sessions or come back, some warm their prompts, instruments are attached.  In an eighth requests have
    owners, who share no KV; in another most want more of their prompts.  In two fifths they differ in importance, some
    belong together, the arena is small; in half some take others' slots, outlive their clients, steps come in bursts.
    In a third of the later ones the model has a recurrent layer, and half of the models that draft there read its KV.
    """
    dice, windows, grammars = (random.Random(f"{about} {seed}") for about in ("lies", "windows", "grammars"))
    scenario = _honest(seed)
    if dice.random() < 1 / 3:
        scenario = _with_lies(scenario, dice)
    elif grammars.random() < 1 / 3:
        scenario = _with_grammars(scenario, grammars)
    scenario = _with_window(scenario, windows) if windows.random() < 1 / 3 else scenario
    scenario = _with_sessions(scenario, seed) if seed % 3 == 0 else scenario
    scenario = replace(scenario, owners=OWNERS) if seed % 16 in (8, 12) else scenario
    scenario = _with_outputs(scenario, random.Random(f"outputs {seed}")) if seed % 16 in (9, 13) else scenario
    scenario = _with_priorities(scenario, p) if (p := random.Random(f"priorities {seed}")).random() < 0.4 else scenario
    scenario = with_groups(scenario, dice) if (dice := random.Random(f"kin {seed}")).random() < 0.4 else scenario
    scenario = with_preemption(scenario, _visit, random.Random(f"parks {seed}"))
    scenario = with_small_arena(scenario, random.Random(f"arena {seed}"))
    scenario = with_warm(scenario, random.Random(f"warm {seed}"))
    leaving, instruments, bursts = (random.Random(f"{about} {seed}") for about in ("leaving", "instruments", "bursts"))
    scenario = replace(scenario, burst_seconds=bursts.choice([None, None, 0.05, 0.5]))
    scenario = with_states(scenario, random.Random(f"states {seed}"))
    scenario = _with_assistant(scenario, random.Random(f"assistant {seed}"))
    return replace(scenario, visits=leavers(scenario.visits, leaving), instruments=instruments.random() < 1 / 3)


def _with_priorities(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same with those who are more important than others, and with weights that matter where there are owners."""
    numbers = dice.choice([(-10, 0, 10), (0, 1), (-1000, 0, 1000)])
    weights = {owner: dice.choice([0.5, 1.0, 4.0]) for owner in scenario.owners}
    visits = [
        replace(visit, priority=dice.choice(numbers), weight=weights[scenario.owners[number % len(scenario.owners)]])
        for number, visit in enumerate(scenario.visits)
    ]
    return replace(scenario, visits=tuple(visits), ageing=dice.choice([0.002, 0.02, 3.0]))


def _with_outputs(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same with pooled states and scores of prompts for most who come, of whom half want nothing else."""
    return replace(scenario, visits=tuple(_wanting(v, dice) if dice.random() < 0.7 else v for v in scenario.visits))


def _wanting(visit: Visit, dice: random.Random) -> Visit:
    outputs = PromptOutputs(dice.choice([None, Pooling.MEAN, Pooling.LAST]), dice.choice([None, None, 0, 3]))
    return replace(visit, outputs=outputs, max_tokens=0 if dice.random() < 0.5 else visit.max_tokens)


def _with_sessions(scenario: Scenario, seed: int) -> Scenario:
    """The same with names for most who come, few enough that they come again."""
    dice, names = random.Random(f"sessions {seed}"), ["red", "blue", None]
    return replace(scenario, visits=tuple(replace(v, session=dice.choice(names)) for v in scenario.visits))


def _with_grammars(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same with rules for most who come, some of which the library gives up on."""
    visits = tuple(replace(visit, rule=drawn_rule(dice)) if dice.random() < 0.7 else visit for visit in scenario.visits)
    return replace(scenario, visits=visits, late_masks=dice.random() < 0.5)


def _with_window(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same with a ring that is short beside the prompts, and with room for as many drafts as there may be."""
    return replace(scenario, rings=Rings((None, dice.choice([2, 7, 24, 70, 130])), dice.choice([20, 40, 128])))


def _with_assistant(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same, in half of the later scenarios in which a model drafts, with one that reads the target's KV."""
    reads = scenario.seed >= FIRST_SEED and scenario.speculate is Proposer.DRAFT and dice.random() < 0.5
    return replace(scenario, speculate=Proposer.ASSISTANT) if reads else scenario


def _with_lies(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same with lies, more of those who stay, prompts that share much, and copies that take their time."""
    return replace(
        scenario,
        slots=dice.choice([2, 2, 3]),
        queue=20,
        queue_timeout=None,
        chunk_tokens=dice.choice([16, 64, 64, None]),
        ram=dice.choice([8, 100, 100]),
        piece=1,
        block_seconds=dice.choice([0.003, 0.03]),
        speculate=Proposer.OFF,
        audit_share=dice.choice([0.3, 0.5]),
        lies=dice.choice([0.2, 0.4]),
        visits=tuple(_lied_to(dice) for _ in range(dice.randint(8, 14))),
        plan=scenario.plan if dice.random() < 0.3 else FaultPlan(),
    )


def _lied_to(dice: random.Random) -> Visit:
    patient = dice.random() < 0.8
    visit = _visit(dice, long=True)
    return replace(
        visit,
        arrives=visit.arrives / dice.choice([1, 4]),
        conversation=dice.choice([0, 0, 0, 1, 2]),
        shared=dice.choice([130, 130, 200, 330]),
        own=dice.choice([1, 30, 70, 150]),
        max_tokens=dice.randint(1, 4),
        cursed=False,
        generations=1,
        cache_prompt=dice.random() < 0.95,
        timeout=None,
        hang_up_after=None if patient else visit.hang_up_after,
        hang_up_at=None if patient else visit.hang_up_at,
        deleted_at=None if patient else visit.deleted_at,
        reads=True,
    )


def _honest(seed: int) -> Scenario:
    dice = random.Random(seed)
    keeps = dice.random() < 0.5
    disk = dice.choice([2, 8, 100]) if dice.random() < 0.3 else 0
    speculate = dice.choice([Proposer.OFF, Proposer.OFF, Proposer.NGRAM, Proposer.DRAFT, Proposer.MTP])
    return Scenario(
        seed=seed,
        slots=dice.choice([1, 1, 2, 3]) if disk else dice.randint(1, 4),
        queue=dice.choice([0, 1, 3, 20, 20]),
        queue_timeout=dice.choice([None, None, None, 0.03]),
        chunk_tokens=dice.choice([None, 1, 5, 16, 64]),
        layers=dice.randint(1, 4),
        step_seconds=(dice.choice([0.0, 0.002, 0.01]), dice.choice([0.0001, 0.001])),
        ram=dice.choice([1, 2, 4, 100]) if keeps else 0,
        disk=disk,
        piece=dice.randint(1, 3),
        block_seconds=0.003,
        hold_seconds=dice.choice([0.0, 0.05, 60.0]),
        audit_share=dice.choice([0.0, 0.0, 0.0, 1.0]),
        speculate=speculate,
        draft_tokens=dice.choice([None, 1, 2, 4, 7]),
        accuracy=dice.choice([0.0, 0.6, 0.9, 1.0]),
        end_ids=tuple(dice.sample(range(VOCABULARY), 20)) if dice.random() < 0.2 else (),
        cursed_blocks=dice.random() < 0.1,
        lies=0.0,
        recovery_seconds=dice.choice([0.0, 0.05]),
        visits=tuple(_visit(dice, long=keeps or disk > 0) for _ in range(dice.randint(1, 9 if disk else 6))),
        plan=FaultPlan(tuple(_fault(dice, disk > 0) for _ in range(dice.choice([0, 0, 1, 1, 2, 3])))),
    )


def _visit(dice: random.Random, *, long: bool) -> Visit:
    return Visit(
        arrives=_milliseconds(dice) * (8 if long else 1) if dice.random() < 0.8 else 0.0,
        conversation=dice.randint(0, 2),
        shared=dice.choice([0, 63, 64, 65, 130, 130, 130]) if long else dice.randint(0, 40),
        own=dice.choice([1, 1, 2, 5, 30]),
        cursed=dice.random() < 0.08,
        generations=dice.choice([1, 1, 1, 2, 3]),
        max_tokens=dice.randint(1, 12),
        cache_prompt=dice.random() < 0.85,
        speculate=dice.random() < 0.85,
        timeout=_sometimes(dice, 0.15),
        hang_up_after=dice.randint(0, 8) if dice.random() < 0.2 else None,
        hang_up_at=_sometimes(dice, 0.3),
        deleted_at=_sometimes(dice, 0.15),
        pause=dice.choice([0.0, 0.0, 0.02]),
        reads=dice.random() < 0.95,
        retries=tuple(_retry(dice) for _ in range(dice.choice([0, 0, 0, 1, 1, 2]))),
    )


def _retry(dice: random.Random) -> Retry:
    return Retry(after=dice.choice([0.0, 0.001, 0.05]), forgets=dice.choice([0, 0, 1, 5, 60]), adds=dice.randint(0, 9))


def _milliseconds(dice: random.Random) -> float:
    return dice.randint(1, 150) / 1000


def _sometimes(dice: random.Random, share: float) -> float | None:
    return _milliseconds(dice) if dice.random() < share else None


def _fault(dice: random.Random, has_disk: bool) -> Fault:
    step, layer, drafting = dice.randint(1, 30), dice.randint(0, 3), dice.random() < 0.2
    if has_disk and dice.random() < 0.5:
        write = dice.randint(1, 4)
        bit = dice.randrange(1 << 20)
        slow = SlowRead(read=dice.randint(1, 2), seconds=dice.choice([0.1, 8.0, 1000.0]), every=dice.choice([None, 1]))
        spoilt: list[Fault] = [ShortWrite(write=write, lost=1 + bit), BitFlip(write=write, bit=bit)]
        return dice.choice([DiskError(write=write), *spoilt, slow, slow])  # fewer blocks are read than written
    usual: list[Fault] = [
        DeviceError(step=step, layer=layer, drafting=drafting, every=dice.choice([None, None, 3])),
        OutOfMemory(step=step, layer=layer, drafting=drafting),
        NotFinite(step=step, segment=layer, drafting=drafting),
        SlowStep(step=step, layer=layer, seconds=dice.choice([0.1, 0.1, 5.0]), drafting=drafting),
        ThreadDeath(step=step, layer=layer, drafting=drafting, every=dice.choice([None, None, 2])),
        CancelAt(actor=dice.choice(["queue", "restore", "prefill", "decode"]), checkpoint=dice.randint(1, 20)),
        TransferError(transfer=dice.randint(1, 4)),
        ClockJump(step=step, seconds=dice.choice([0.05, 10.0])),
        MailboxFlood(step=step, requests=dice.randint(1, 30)),
    ]
    if dice.random() < 0.1:  # rarely, since not much happens afterwards
        return Shutdown(step=step, grace=dice.choice([0.0, 0.02]))
    return dice.choice(usual)


def text(length: int, seed: int) -> list[int]:
    """Tokens that no other seed has."""
    return random.Random(seed).choices(range(VOCABULARY), k=length)


def first_request(visit: Visit, request_id: str, owner: str | None = None) -> GenerationRequest:
    """Return what a client asks when it comes."""
    own = text(visit.own, 100 + 10 * visit.own + visit.conversation)
    tokens = [*text(visit.shared, visit.conversation), *own, *([CULPRIT] if visit.cursed else [])]
    return _request(visit, request_id, [tokens] * visit.generations, owner)


def next_request(
    visit: Visit, retry: Retry, before: GenerationRequest, name: str, whole: list[int]
) -> GenerationRequest:
    """Return what it asks when it comes back with `whole`, the prompt and what it got."""
    kept = whole[: max(1, min(len(whole) - retry.forgets, CONTEXT - 40))]  # which leaves room for an answer
    return _request(visit, name, [[*kept, *text(retry.adds, len(whole))]], before.owner)


def _request(visit: Visit, request_id: str, prompts: list[list[int]], owner: str | None) -> GenerationRequest:
    return GenerationRequest(
        request_id,
        tuple(map(tuple, prompts)),
        GREEDY,
        max_tokens=visit.max_tokens,
        timeout=visit.timeout,
        cache_prompt=visit.cache_prompt,
        speculate=visit.speculate,
        owner=owner,
        grammar=None if visit.rule is None else visit.rule.grammar,
        session=visit.session,
        outputs=visit.outputs,
        priority=visit.priority,
        weight=visit.weight,
        control=visit.control,
    )
