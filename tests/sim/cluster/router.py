"""Router of a front door: what it knows of the workers' KV, and which it prefers.  A model of Dynamo's KV router."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.kv.blocks import BLOCK_TOKENS

OVERLAP_WEIGHT = 1.0  # Dynamo's default: a block to be read counts as much as a block that is being written


@dataclass(frozen=True, slots=True)
class Stored:
    """Blocks can be had at a worker, each after the one before it."""

    token_ids: tuple[int, ...]
    names: tuple[int, ...]
    parent: int | None


@dataclass(frozen=True, slots=True)
class Taken:
    """Blocks cannot be had at a worker any more."""

    names: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    parent: int | None
    token_ids: tuple[int, ...]


class WorkerBlocks:
    """The blocks of one worker, as far as they were told of.

    Attributes:
        strange: what was told that does not follow from what was told before.
    """

    def __init__(self) -> None:
        self.strange: list[str] = []
        self._nodes: dict[int, _Node] = {}
        self._names: dict[_Node, int] = {}

    @property
    def names(self) -> set[int]:
        """Of all of them."""
        return set(self._nodes)

    def apply(self, event: Stored | Taken) -> None:
        """Follow a change."""
        match event:
            case Stored(token_ids, names, parent):
                for number, name in enumerate(names):
                    node = _Node(parent, token_ids[number * BLOCK_TOKENS : (number + 1) * BLOCK_TOKENS])
                    if name in self._nodes or (parent is not None and parent not in self._nodes):
                        self.strange.append(f"block {name} comes twice, or without the one before it")
                    self._nodes[name], self._names[node], parent = node, name, name
            case Taken(names):
                for name in names:
                    gone = self._nodes.pop(name, None)
                    if gone is None:
                        self.strange.append(f"block {name} is taken back, and was not there")
                    else:
                        del self._names[gone]

    def snapshot(self) -> list[Stored]:
        """All of them, each after its parent."""
        return [Stored(node.token_ids, (name,), node.parent) for name, node in self._nodes.items()]

    def reach(self, tokens: Sequence[int]) -> int:
        """Return how many first blocks of a sequence are among them."""
        parent: int | None = None
        for count in range(len(tokens) // BLOCK_TOKENS):
            block = tuple(tokens[count * BLOCK_TOKENS : (count + 1) * BLOCK_TOKENS])
            parent = self._names.get(_Node(parent, block))
            if parent is None:
                return count
        return len(tokens) // BLOCK_TOKENS


def choose(
    tokens: Sequence[int],
    workers: Iterable[tuple[str, WorkerBlocks | None, int]],
    chance: random.Random,
) -> str | None:
    """The worker that has least to do for a prompt, by name; None if there is none.

    Args:
        tokens: of the prompt.
        workers: the name of each, its blocks as far as they are known, and how many are in use there.
        chance: decides between equals.
    """
    blocks = -(-len(tokens) // BLOCK_TOKENS)
    costs = {
        name: OVERLAP_WEIGHT * (blocks - (0 if known is None else known.reach(tokens))) + used
        for name, known, used in workers
    }
    if not costs:
        return None
    least = min(costs.values())
    return chance.choice([name for name, cost in costs.items() if cost == least])
