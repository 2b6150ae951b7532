"""Requests as Trio tasks over one device: everything between HTTP and the tensors.

Rests on `runtime`, and knows nothing of `web`.  For whoever embeds cede, `model.open_model` opens a model by its name;
below it the front door is `engine.open_engine`.  One task, the slot manager, owns all that the device works on.  The
packages, each of which may use those before it:

- `core`: what passes between tasks, and the records of slots and cancels; at the root `config`, the engine's options,
  and `control`, what a request says of its own fate
- `scheduling`: who goes first, and what the next step runs: decisions, and nothing else
- `kv`: KV outside the slots, and how it comes and goes; `generating`: from the queue to the last token; `groups`:
  requests that say something of one another; `preemption`: who leaves a slot for somebody more important
- `manager`: the slot manager, its queue, its steps, and what happens when the device is lost
- at the root: `request` and `engine`; `spare_time`: prompts that are read ahead of time
- at the root, too: `opening`: an engine over a model's files; `model`: the face of both for embedders
- `diagnostics`, `testing`, `selftest`: who held the event loop; faults and a clock that jumps; what the doctor checks
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.config import EngineConfig
    from actors.engine import Engine
    from actors.model import Answer, OpenModel, open_model
    from runtime.chat.conversation import Turn
    from runtime.loading.options import LoadOptions
    from runtime.sampling.params import SamplingParams

__all__ = ["Answer", "Engine", "EngineConfig", "LoadOptions", "OpenModel", "SamplingParams", "Turn", "open_model"]

# Imported when they are asked for: the options of the command line are in this package, too, and need no torch.
_HOMES = {
    "Answer": "actors.model",
    "Engine": "actors.engine",
    "EngineConfig": "actors.config",
    "LoadOptions": "runtime.loading.options",
    "OpenModel": "actors.model",
    "SamplingParams": "runtime.sampling.params",
    "Turn": "runtime.chat.conversation",
    "open_model": "actors.model",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what embedders use from where it is defined."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
