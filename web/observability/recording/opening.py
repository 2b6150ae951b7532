"""A recording of an engine, while a server serves."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from runtime.common.units import counted
from web.observability.recording.file import RecordingFile, open_file
from web.observability.recording.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from actors.engine import Engine

logger = logging.getLogger("cede.web")

PATIENCE = 1.0  # seconds that the server's end waits for the disk to take more


@asynccontextmanager
async def open_recording(engine: Engine, path: Path) -> AsyncIterator[None]:
    """Record what the engine does, until the scope ends.

    Args:
        engine: open.
        path: of the file, which is overwritten.

    Raises:
        RecordingError: it cannot be written.
    """
    recording = RecordingFile(open_file(path))
    recording.start()
    manager = engine.manager
    recorder = Recorder(recording.put, manager.handle.now, engine.config.slots, manager.wall)
    try:
        with engine.observed_by(recorder):
            yield
    finally:
        recorder.close()
        with trio.CancelScope(shield=True):
            is_whole = await trio.to_thread.run_sync(recording.close, PATIENCE)
        logger.info("recorded %s, dropped %d", counted(recording.written, "event"), recording.dropped)
        if not is_whole:
            logger.warning("--record: the disk does not answer, and %d events are not written", recording.unwritten)
