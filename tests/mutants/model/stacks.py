"""Bad edits of how several layers run in one call."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STACK = ("tests/unit/runtime/nn/test_native_stack.py",)
TOGETHER = ("tests/unit/runtime/step/test_step_together.py",)
SOURCE = "runtime/devices/native/source/layer.cpp"

MUTANTS = (
    Mutant(
        "a call of layers that goes on when somebody is cancelled",
        SOURCE,
        "if (marks->any() || passed.count() >= nanoseconds)",
        "if ((i < 0 && marks->any()) || passed.count() >= nanoseconds)",
        STACK,
    ),
    Mutant(
        "a call of layers that all write the first one's KV",
        SOURCE,
        "own.shift = stack->shift[i];",
        "own.shift = stack->shift[first];",
        STACK,
    ),
    Mutant(
        "layers in one call that rotate otherwise",
        "runtime/nn/native_stack.py",
        "if own.sees != first.sees or not kv.lie_alike(",
        "if not kv.lie_alike(",
        STACK,
    ),
    Mutant(
        "layers in one call over a window that is in two pieces",
        "runtime/nn/native_stack.py",
        " or not all(one.is_in_place(batch, self._kv) for one in self._mixers)",
        "",
        STACK,
    ),
    Mutant(
        "a piece of a segment that goes on from the state before all of them",
        "runtime/step/step.py",
        "state=passed[0][1] if first and passed else self.state",
        "state=self.state",
        ("tests/unit/runtime/nn/layers/test_native_layer_prompts.py",),
    ),
    Mutant(
        "ends of layers that ran in one call, without its beginning",
        "runtime/step/step.py",
        "[began + seconds for seconds in ended]",
        "[seconds for seconds in ended]",
        TOGETHER,
    ),
    Mutant(
        "a cancel that kernels do not see",
        "runtime/step/step.py",
        "            self._flag.value = 1\n",
        "",
        TOGETHER,
    ),
    Mutant(
        "a cancel whose time is taken before kernels can see it",
        "runtime/step/step.py",
        "            self._flag.value = 1\n            self.at = clock()\n",
        "            self.at = clock()\n            self._flag.value = 1\n",
        TOGETHER,
    ),
    Mutant(
        "layers in one call while somebody looks at each",
        "runtime/step/thread_executor.py",
        "model if layer_done is None and isinstance(",
        "model if isinstance(",
        TOGETHER,
    ),
)
