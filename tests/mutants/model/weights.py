"""Bad edits of how weights are kept and read, and of what is foreseen of them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SIXTEEN = ("tests/unit/runtime/nn/matrices/test_sixteen_bits.py",)
KINDS = ("tests/unit/runtime/nn/layers/test_native_layer_kinds.py",)
SOURCE = ("tests/unit/runtime/nn/test_stored_source.py",)
FOOTPRINT = ("tests/unit/runtime/loading/test_footprint.py",)

MUTANTS = (
    Mutant(
        "float16 is widened as if it were bfloat16",
        "runtime/devices/native/source/kinds.h",
        "use(Rows<Float16>(",
        "use(Rows<Bfloat16>(",
        SIXTEEN,
    ),
    Mutant(
        "of many rows each slab of outputs is the first one's",
        "runtime/nn/matrices/sixteen_bits.py",
        "self._product(x, slab.float())",
        "self._product(x, self.weight[: len(slab)].float())",
        SIXTEEN,
    ),
    Mutant(
        "a row takes its angles where whole heads are rotated",
        "runtime/devices/native/source/layer.h",
        "static_cast<const T*>(step.sin) + row * layer.rotary",
        "static_cast<const T*>(step.sin) + row * (layer.rotary ? dim : 0)",
        KINDS,
    ),
    Mutant(
        "each slab of codes is put where the matrix begins",
        "runtime/checkpoint/stored.py",
        "            done += part.codes.shape[0]\n",
        "",
        SOURCE,
    ),
    Mutant(
        "a head of 16 bits is a second copy of the embedding",
        "runtime/nn/source.py",
        "        head = Linear((narrow or self._format(head=True))(weight, None))\n",
        "        head = Linear((narrow or self._format(head=True))(weight.clone(), None))\n",
        SOURCE,
    ),
    Mutant(
        "weights that stay in 16 bits are foreseen as full ones",
        "runtime/nn/plan.py",
        "return made or dtype_name(kept.narrow or self.dtype)",
        "return made or dtype_name(self.dtype)",
        FOOTPRINT,
    ),
)
