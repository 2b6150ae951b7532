"""Layers by the kernels of `runtime.devices.native`, several in one call.

Between two layers nothing is Python's: a layer of few rows may take no longer than what Python does for it, and this
thread need not wait for the interpreter, which the event loop has meanwhile.  Cancels are looked at by the kernels, at
the end of each layer.
"""

from __future__ import annotations

from ctypes import addressof, c_int32, c_int64, c_void_p
from time import perf_counter
from typing import TYPE_CHECKING

from runtime.devices.native.structures import MOST_ROWS, Marks, Stack
from runtime.nn.layers.native_layer import NativeLayer
from runtime.nn.layers.native_mixers import rows_of, step_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.native_layer import AnyLayer
    from runtime.nn.layers.native_mixers import NativeMixer

MOST_NANOSECONDS = 50_000_000
"""A call ends with the layer in which so many have passed: whoever waits for the step is to see that it goes on."""


class NativeStack:
    """Layers that follow one another, and have the rows of a sequence at the same place of their KV.

    Args:
        layers: such layers.
        kv: the model's, and theirs alone.
    """

    def __init__(self, layers: Sequence[NativeLayer], kv: KVCache) -> None:
        self._first = layers[0]
        self._kv = kv
        self._mixers = _firsts(layers)
        self._rope = next((mixer.rope for mixer in self._mixers if mixer.rope is not None), None)
        places = [layer.mixer.place(kv) for layer in layers]
        bases = {type(mixer): mixer.place(kv) for mixer in self._mixers}
        count = len(layers)
        # What the description refers to, as long as this is there; the layers keep what theirs do.
        self._layers = layers
        self._targets = (c_int32 * count)(*(layer.target for layer in layers))
        self._described = (c_void_p * count)(*(addressof(layer.described) for layer in layers))
        self._shifts = (c_int64 * count)(
            *(place - bases[type(layer.mixer)] for layer, place in zip(layers, places, strict=True))
        )
        self._stack = Stack(
            layers=count,
            target=addressof(self._targets),
            layer=addressof(self._described),
            shift=addressof(self._shifts),
        )

    def run(self, batch: LayerRows, index: int) -> Sequence[float]:
        """Run layers from number `index` of the model on, as `LayersTogether.run_layers`.

        None are run where there are many rows, or where a sequence's KV is not in one piece.
        """
        began = perf_counter()
        if batch.hidden.shape[0] > MOST_ROWS or not all(one.is_in_place(batch, self._kv) for one in self._mixers):
            return ()
        rows, segments = rows_of(batch), batch.segments
        for mixer in self._mixers:
            mixer.fill(rows, batch, self._kv)
        marks = (c_void_p * len(segments))(*(segment.mark.address for segment in segments))
        step, until = step_of(batch, rows, self._rope), Marks(len(segments), addressof(marks))
        before = perf_counter() - began  # the kernels' time begins with theirs
        ended = self._first.kernels.run_layers(self._stack, index - self._first.index, step, until, MOST_NANOSECONDS)
        return [before + nanoseconds * 1e-9 for nanoseconds in ended]


def native_stacks(layers: Sequence[AnyLayer], kv: KVCache) -> list[NativeStack | None]:
    """Return the stack that each layer of a model is in; None for one that the kernels do not compute."""
    stacks: list[NativeStack | None] = []
    while (first := len(stacks)) < len(layers):
        alike = _alike(layers[first:], kv)
        stacks += [NativeStack(alike, kv)] * len(alike) if alike else [None]
    return stacks


def _alike(layers: Sequence[AnyLayer], kv: KVCache) -> list[NativeLayer]:
    """Return those of the first layers that make a stack."""
    alike: list[NativeLayer] = []
    for layer in layers:
        if not isinstance(layer, NativeLayer):
            break
        own, first = layer.mixer, next((one for one in _firsts(alike) if type(one) is type(layer.mixer)), layer.mixer)
        if own.sees != first.sees or not kv.lie_alike(own.index, first.index):
            break
        alike.append(layer)
    return alike


def _firsts(layers: Sequence[NativeLayer]) -> list[NativeMixer]:
    """Return the first mixer of each kind, which stands for those that are alike."""
    firsts: dict[type, NativeMixer] = {}
    for layer in layers:
        firsts.setdefault(type(layer.mixer), layer.mixer)
    return list(firsts.values())
