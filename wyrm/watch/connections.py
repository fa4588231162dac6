"""Connections to the server of runs: how long they may last without an answer, and how many there are."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds from the beginning of a connection, or its last answer, to the end of its next answer. The page waits for 15.
SECONDS = 20.0
# A page has six at most.
MOST = 128


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, which ends after 20 seconds without a complete request and its answer.

    uvicorn bounds the time between two requests only: a request that never ends, or an answer that is never read, would
    keep its connection. Beyond 128 connections, each new one ends that which waits longest for its request.
    """

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MOST:
            waiting = [each for each in self.connections if isinstance(each, BoundedProtocol) and not each._answers]
            longest = min(waiting, key=lambda each: each._since)
            self.connections.discard(longest)  # at once: others may begin before it has ended
            longest.transport.abort()

    def on_response_complete(self) -> None:
        """Give the next request its time."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._since = self.loop.time()
        # Not `close`, which would wait until the other side has read what it was sent.
        self._timer = self.loop.call_later(SECONDS, self.transport.abort)
