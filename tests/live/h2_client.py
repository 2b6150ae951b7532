"""An HTTP/2 client for tests, on Trio's streams; h2 parses, and whoever wants to can send what h2 would not."""

from __future__ import annotations

import h2.connection
import h2.events
import h2.settings
import trio

from tests.live.server import PATIENCE


class H2Client:
    """A client on a connection of its own, with prior knowledge; `window` is how much of an answer it takes."""

    def __init__(self, stream: trio.abc.Stream, window: int = 65535) -> None:
        self.stream = stream
        self.h2 = h2.connection.H2Connection()
        self.h2.local_settings = h2.settings.Settings(
            initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
        )
        self.h2.initiate_connection()
        self._events: list[h2.events.Event] = []

    async def flush(self) -> None:
        """Send what the protocol has to say."""
        await self.stream.send_all(self.h2.data_to_send())

    async def ask(self, method: str, path: bytes, *, body: bytes = b"", end: bool = True) -> int:
        """Send a request; its stream's number."""
        stream_id = self.h2.get_next_available_stream_id()
        headers = [
            (b":method", method.encode()),
            (b":path", path),
            (b":scheme", b"http"),
            (b":authority", b"localhost"),
        ]
        self.h2.send_headers(stream_id, headers, end_stream=end and not body)
        if body:
            self.h2.send_data(stream_id, body, end_stream=end)
        await self.flush()
        return stream_id

    async def next_event(self) -> h2.events.Event:
        """Return what comes next.  Raises EOFError."""
        with trio.fail_after(PATIENCE):
            while not self._events:
                data = await self.stream.receive_some()
                if not data:
                    raise EOFError
                self._events = self.h2.receive_data(data)
                await self.flush()
        return self._events.pop(0)

    async def answer(self, stream_id: int) -> bytes:
        """The status of the response on this stream, once it is complete."""
        status = b""
        while True:
            event = await self.next_event()
            if isinstance(event, h2.events.ResponseReceived) and event.stream_id == stream_id:
                status = dict(event.headers)[b":status"]
            elif isinstance(event, h2.events.StreamEnded) and event.stream_id == stream_id:
                return status
