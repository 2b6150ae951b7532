"""A recording of an engine, while a server serves."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from web.recording.file import RecordingFile, open_file
from web.recording.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from actors.engine import Engine
    from web.recording.file import RawFile

logger = logging.getLogger("cede.web")

PATIENCE = 5.0  # seconds that the server's end waits for the disk


@asynccontextmanager
async def open_recording(engine: Engine, path: Path) -> AsyncIterator[None]:
    """Record what the engine does, until the scope ends.

    Args:
        engine: open.
        path: of the file, which is overwritten.

    Raises:
        RecordingError: it cannot be written.
    """
    with open_file(path) as file:
        async with _recorded(engine, file):
            yield


@asynccontextmanager
async def _recorded(engine: Engine, file: RawFile) -> AsyncIterator[None]:
    recording = RecordingFile(file)
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
        logger.info("recorded %d events; %d were dropped", recording.written, recording.dropped)
        if not is_whole:
            logger.warning("--record: the disk does not answer, and the file has no end")
