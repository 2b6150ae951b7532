"""Invariants of a cluster.

    I27 each request ends once at its client: whole, with an error, or broken off because its front door died
    I28 what a client gets is what the request gets alone, whatever died meanwhile
    I29 who is not wanted any more is cancelled when the word comes to its worker, and nobody else is
    I30 no worker that runs and can be reached is taken to be dead
    I31 an error says that the request may be sent again, and comes only where nobody else could have served it
    I32 a worker that has left discovery, or was dropped from it, is asked for nothing
    I33 once all is quiet, a front door knows which blocks each worker holds, and finds them by their tokens
    I34 a request is with one worker at a time, until the front door has given that one up

Each engine is held to I1 to I9, I11, I22 and I23 besides (`tests.sim.invariants`); that nothing is left in it is I6 and
I7, looked at when it stops.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from actors.core.receipts import CancelReason
from tests.sim.cluster.network import BACKOFF
from tests.sim.cluster.worker import LAYERS
from web.cluster.front_door import MIGRATIONS
from web.cluster.translation.output_mark import mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sim.cluster.books import Attempt, Story
    from tests.sim.cluster.play import Cluster
    from tests.sim.cluster.router import WorkerBlocks
    from tests.sim.cluster.scenario import Scenario
    from tests.sim.cluster.worker import Worker

ROUNDING = 1e-6  # seconds


def check_quiet(cluster: Cluster) -> list[str]:
    """Return what does not hold while nothing happens any more, and all who live can reach one another: I33."""
    found: list[str] = []
    living = {worker.process.name: worker for worker in cluster.workers if not worker.process.is_dead}
    for door in cluster.doors:
        if door.process.is_dead:
            continue
        name = door.process.name
        if door.workers.keys() != living.keys():
            found.append(f"I32: {name} knows {sorted(door.workers)}, and these live: {sorted(living)}")
        for worker_name, blocks in door.blocks.items():
            held = living[worker_name].names_held() if worker_name in living else set()
            if blocks.names != held:
                more, less = len(blocks.names - held), len(held - blocks.names)
                found.append(f"I33: {name} knows {more} blocks of {worker_name} that it has not, and not {less} others")
            elif worker_name in living:
                found += _check_reach(f"I33: {name}", blocks, living[worker_name], cluster)
        strange = [*door.strange, *(what for blocks in door.blocks.values() for what in blocks.strange)]
        found += [f"I33: {name}: {what}" for what in strange]
    return found


def _check_reach(name: str, blocks: WorkerBlocks, worker: Worker, cluster: Cluster) -> Iterator[str]:
    """By the tokens of a prompt, a front door finds as much of it as the worker has."""
    for story in cluster.stories:
        prompt = story.visit.prompt
        if blocks.reach(prompt) != worker.reach(prompt):
            yield f"{name} finds {blocks.reach(prompt)} blocks of {story.id}, and not {worker.reach(prompt)}"


def check_at_end(cluster: Cluster) -> list[str]:
    """Return what did not hold of the requests, and of the workers."""
    found = [what for worker in cluster.workers for what in (*worker.violations, *worker.attendance.strange)]
    workers = {worker.process.name: worker for worker in cluster.workers}
    for story in cluster.stories:
        found += _check_ends(story, cluster)
        found += _check_exact(story, cluster)
        found += _check_error(story, cluster.scenario)
        found += _check_one_at_a_time(story)
        for attempt in story.attempts:
            worker = workers[attempt.worker]
            found += _check_cancel(attempt, worker, cluster)
            found += _check_silence(attempt, worker, cluster)
            found += _check_left(attempt, worker, cluster)
    return found


def _check_ends(story: Story, cluster: Cluster) -> Iterator[str]:
    """I27."""
    most = 1 if story.hung_up_at is None else 0
    if story.ends != most:
        yield f"I27: {story.id} has ended {story.ends} times"
    died = any(door.process.name == story.door and door.process.is_dead for door in cluster.doors)
    if story.broken and not died:
        yield f"I27: {story.id} was broken off, and its front door lives"
    if story.hung_up_at is None and not story.broken and story.status is None and not story.is_whole:
        yield f"I27: {story.id} has ended well, and only {sorted(story.finishes)} of its choices have"


def _check_exact(story: Story, cluster: Cluster) -> Iterator[str]:
    """I28."""
    visit = story.visit
    model = cluster.workers[0].sim.model
    alone = model.continuation(visit.prompt, visit.max_tokens)
    if visit.penalty and visit.choices == 1:
        alone[0] = mark(alone[0], model.vocab_size)
    for index, tokens in enumerate(story.tokens):
        if tokens != alone[: len(tokens)]:
            yield f"I28: choice {index} of {story.id} is not exact: {tokens} and not {alone}"
        finish = story.finishes.get(index)
        if finish is not None and (finish != "length" or len(tokens) != len(alone)):
            yield f"I28: choice {index} of {story.id} has {len(tokens)} of {len(alone)} tokens, and ends as {finish}"


def _check_error(story: Story, scenario: Scenario) -> Iterator[str]:
    """I31."""
    if story.status is None:
        return
    reasons = [attempt.why for attempt in story.attempts]
    if story.status != 503:
        yield f"I31: {story.id} ends with {story.status} {story.why}, after {reasons}"
    elif reasons and not reasons[-1]:
        yield f"I31: {story.id} ends with what a worker says: {story.why}; another might have served it"
    elif story.visit.choices > 1 or set(reasons) - {"refused"}:
        return  # it could not be moved, or there was somebody who was lost
    elif scenario.troubles or scenario.partitions or scenario.lost_devices:
        return  # others may have found that all workers were lost
    elif len(reasons) <= MIGRATIONS:
        yield f"I31: {story.id} ends with {story.why}, and was refused {len(reasons)} times"


def _check_one_at_a_time(story: Story) -> Iterator[str]:
    """I34."""
    for one, other in zip(story.attempts, story.attempts[1:], strict=False):
        if one.left_at is None or other.sent_at < one.left_at - ROUNDING:
            yield f"I34: {story.id} goes to {other.worker} while {one.worker} has it"


def _check_cancel(attempt: Attempt, worker: Worker, cluster: Cluster) -> Iterator[str]:
    """I29."""
    name = f"I29: {attempt.request_id} at {worker.process.name}"
    end = math.inf if worker.died_at is None else worker.died_at
    for at, reason in attempt.reasons:
        if at < end and not _is_wanted_cancel(attempt, worker, at, reason):
            yield f"{name} was cancelled ({reason}), and nobody had asked for that"
    if attempt.left_at is None:
        return
    door = attempt.door.partition(".")[0]
    latest = cluster.network.latest(door, worker.process.node, attempt.left_at) + ROUNDING
    if attempt.came_at is not None:  # held back itself, and the word, on the same connection, comes behind it
        latest = max(latest, attempt.came_at + ROUNDING)
    latest = max(latest, *(thaw + ROUNDING for start, thaw in worker.frozen if start <= latest), 0.0)
    word = attempt.word_at
    ended = math.inf if attempt.departed_at is None else attempt.departed_at
    if min(ended, end) <= latest and (word is None or ended <= word):
        return
    if word is None or word > latest:
        yield f"{name} was given up at {attempt.left_at}, and heard of it at {word}, not by {latest}"
    elif attempt.arrived_at is not None and end > word:
        yield from _check_prompt(f"{name}", attempt, worker, word, min(ended, end))


def _check_prompt(name: str, attempt: Attempt, worker: Worker, word: float, ended: float) -> Iterator[str]:
    if not attempt.cancels or min(attempt.cancels) > word + ROUNDING:
        yield f"{name} was to be cancelled at {word}, and was at {attempt.cancels}"
    step = worker.sim.watch.device.longest_layer * (LAYERS + 1) + 0.1
    late = sum(thaw - start for start, thaw in worker.frozen if start <= ended and thaw >= word)
    if ended > word + step + late:
        yield f"{name} was to be cancelled at {word}, and left at {ended}"


def _is_wanted_cancel(attempt: Attempt, worker: Worker, at: float, reason: CancelReason) -> bool:
    match reason:
        case CancelReason.DISCONNECT:
            others_failed = any(other is not reason and when <= at for when, other in attempt.reasons)
            return others_failed or (attempt.word_at is not None and attempt.word_at <= at + ROUNDING)
        case CancelReason.SHUTDOWN:
            return worker.told_to_stop is not None and worker.told_to_stop <= at
        case CancelReason.FAULT:
            return any(number == worker.number for number, _ in worker.scenario.lost_devices)
    return False


def _check_silence(attempt: Attempt, worker: Worker, cluster: Cluster) -> Iterator[str]:
    """I30."""
    if attempt.why != "silence" or attempt.left_at is None:
        return
    start, end = attempt.sent_at - ROUNDING, attempt.left_at
    door, node = attempt.door.partition(".")[0], worker.process.node
    is_frozen = any(froze <= end and start <= thaw + BACKOFF for froze, thaw in worker.frozen)
    is_dead = worker.died_at is not None and worker.died_at <= end
    if not (is_frozen or is_dead or cluster.network.is_cut(door, node, start, end)):
        yield f"I30: {attempt.request_id} was taken from {worker.process.name}, which lives"


def _check_left(attempt: Attempt, worker: Worker, cluster: Cluster) -> Iterator[str]:
    """I32."""
    door, node = attempt.door.partition(".")[0], worker.process.node
    network, lease = cluster.network, cluster.scenario.lease

    def known_by(left: float, lease: float) -> float:
        return network.latest("discovery", door, network.latest(node, "discovery", left) + lease) + ROUNDING

    gone: list[tuple[float, float]] = []
    if worker.told_to_stop is not None and not worker.frozen:
        gone.append((known_by(worker.told_to_stop, 0.0), math.inf))
    if worker.died_at is not None:
        gone.append((known_by(worker.died_at, lease), math.inf))
    gone += [(known_by(start, lease), thaw) for start, thaw in worker.frozen]
    if any(known < attempt.sent_at <= back for known, back in gone):
        yield f"I32: {attempt.request_id} goes to {worker.process.name} at {attempt.sent_at}, which has left: {gone}"
