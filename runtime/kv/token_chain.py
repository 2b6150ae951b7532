"""A sequence of tokens that knows the names of its blocks, so that long sequences are compared by a few of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from runtime.kv.blocks import BLOCK_TOKENS, block_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runtime.kv.blocks import BlockKey


class TokenChain(Sequence[int]):
    """Tokens, and the key of each complete block of them.

    The keys change with the tokens and are made from nothing else, so the two cannot disagree.  A key names all tokens
    up to its block's end: two chains of one root share exactly the blocks whose keys are equal.

    Args:
        root: the key that stands for the model; see `runtime.kv.blocks.root_key`.
        tokens: to begin with.
    """

    __slots__ = ("_keys", "_root", "_tokens")

    def __init__(self, root: BlockKey, tokens: Iterable[int] = ()) -> None:
        self._root = root
        self._tokens: list[int] = []
        self._keys: list[BlockKey] = []
        self.extend(tokens)

    @property
    def keys(self) -> Sequence[BlockKey]:
        """The names of the complete blocks; not to be changed."""
        return self._keys

    @property
    def root(self) -> BlockKey:
        """Key that the first block's name is made of."""
        return self._root

    def parent(self, block: int) -> BlockKey:
        """Return the key of what lies before a block, by its number."""
        return self._keys[block - 1] if block else self._root

    def extend(self, tokens: Iterable[int]) -> None:
        """Add tokens at the end."""
        self._tokens.extend(tokens)
        known = len(self._keys) * BLOCK_TOKENS
        if len(self._tokens) - known >= BLOCK_TOKENS:
            self._keys += block_keys(self._keys[-1] if self._keys else self._root, self._tokens[known:])

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        del self._tokens[length:]
        del self._keys[length // BLOCK_TOKENS :]

    def head(self, length: int) -> TokenChain:
        """Return a chain of its own, of the first `length` tokens."""
        head = TokenChain(self._root)
        head._tokens = self._tokens[:length]
        head._keys = self._keys[: length // BLOCK_TOKENS]
        return head

    def shared_with(self, other: TokenChain) -> int:
        """Return how many leading tokens the two share: none if their roots differ, whatever their tokens are.

        A few keys are looked at, and the tokens of one block at most.
        """
        if self._root != other._root:
            return 0
        low, high = 0, min(len(self._keys), len(other._keys))
        while low < high:
            middle = (low + high + 1) // 2
            if self._keys[middle - 1] == other._keys[middle - 1]:
                low = middle
            else:
                high = middle - 1
        shared = low * BLOCK_TOKENS
        limit = min(len(self), len(other), shared + BLOCK_TOKENS)
        while shared < limit and self._tokens[shared] == other._tokens[shared]:
            shared += 1
        return shared

    def __len__(self) -> int:
        """Return how many tokens there are."""
        return len(self._tokens)

    def __iter__(self) -> Iterator[int]:
        """Yield the tokens."""
        return iter(self._tokens)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        """Return a token, or a list of some."""
        return self._tokens[place]

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a chain or a list of the same tokens."""
        return self._tokens == (other._tokens if isinstance(other, TokenChain) else other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        """Show the tokens."""
        return f"TokenChain({self._tokens})"

    def check_integrity(self) -> None:
        """Raise AssertionError if the keys are not those of the tokens."""
        assert self._keys == block_keys(self._root, self._tokens)
