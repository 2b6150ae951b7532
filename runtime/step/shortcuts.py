"""Optional methods of a model beside what steps need, where they are faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

BatchT_contra = TypeVar("BatchT_contra", contravariant=True)


@runtime_checkable
class LayersTogether(Protocol[BatchT_contra]):
    """A model that can run several layers in one call, which looks at the marks of their segments by itself."""

    def run_layers(self, batch: BatchT_contra, first: int) -> Sequence[float]:
        """Run layers from `first` on, and stop at the end of one if somebody is cancelled, or now and then.

        Returns:
            Of each that ran, how many seconds after the call it ended; none where `first` is to be run by itself.
        """


@runtime_checkable
class NextStep(Protocol[BatchT_contra]):
    """A model that can begin the step behind one of which the host has not read yet what it drew."""

    def begin_next(self, batch: BatchT_contra) -> int:
        """Draw what a step asks for, and begin the one that follows on it: a row more of each of its sequences.

        Called behind the step's layers, before `finish`.  The next `begin` is of that step, unless `drop_next` comes
        before it.

        Args:
            batch: of a step of which each segment asks for a single token, that no mask limits, and depends on no token
                before but by what the model makes of them.

        Returns:
            How many layers of the next step the device has been given.
        """

    def drop_next(self) -> None:
        """Let what was begun go no further, and wait until the device has finished its layers."""


class Ahead(Protocol[BatchT_contra]):
    """Source of whether a step is followed by another.

    Attributes:
        layers_ahead: layers of this step that the device was given before it was known that they are wanted.
    """

    layers_ahead: int

    def begin_next(self, batch: BatchT_contra) -> int:
        """Have the next step begun where one is likely to follow; returns how many of its layers were."""
