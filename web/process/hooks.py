"""Hooks that change a server beyond its options: by default, nothing.

`run_server` passes its parts through a `ServerHooks` once, while it opens them.  So a server that is to fail on purpose
(`web.testing.planned_faults`) needs no line in the code that serves.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from runtime.kv.disk.blocks import DiskBlocks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import trio

    from actors.engine import Engine
    from runtime.step.step import StepModel


class ServerHooks:
    """Leaves every part as it is; override what is to be another.

    Attributes:
        clock: for `trio.run`; None for Trio's own.
        disk_blocks: makes what the disk tier keeps its files in.
    """

    clock: trio.abc.Clock | None = None
    disk_blocks: Callable[..., DiskBlocks] = DiskBlocks

    def model(self, model: StepModel[Any], *, drafting: bool) -> StepModel[Any]:
        """Return what runs the steps of a model that was just loaded."""
        return model

    @asynccontextmanager
    async def attend(self, engine: Engine) -> AsyncIterator[None]:
        """Stand by while the engine serves."""
        yield

    async def leave(self) -> None:
        """Tell whoever sends requests that no further ones are to come; running ones are let finish meanwhile."""
