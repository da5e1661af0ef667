"""The answer to one POST of a session: JSON while that is all there is, else a stream.

::

      waits ──all answers──────────────────────► JSON (a batch: an array)
        │ something is to be said before, or it takes too long
        ▼
      stream: what is said, the answers, its end    by any number of outlets

The handlers run whether or not anybody waits here (2025-11-25 basic/transports: a
disconnection is no cancellation).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcpwire.server.http.exchange import JSON
from mcpwire.server.http.outlets import Outlet

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.http.streams import Stream

__all__ = ["Answers"]


class Answers:
    """What one POST is owed; see the module's text.

    Args:
        open_stream: Makes the stream when it is needed.
        finished: Told when nothing is to come any more.
        room: How many bytes may wait for the client to read.
        is_batch: Whether the answers are an array.

    Attributes:
        stream: What answers; ``None`` as long as it is to be JSON.
        status: That of a single answer, and the fields that go with it.
        has_answer: Whether there has been one.
        has_owed: Whether any was ever owed.
    """

    __slots__ = (
        "_answers",
        "_decided",
        "_finished",
        "_is_left",
        "_is_sealed",
        "_open_stream",
        "_outlet",
        "_owed",
        "_room",
        "has_answer",
        "has_owed",
        "is_batch",
        "status",
        "stream",
    )

    def __init__(
        self,
        open_stream: Callable[[], Stream],
        finished: Callable[[Answers], None],
        *,
        room: int,
        is_batch: bool = False,
    ) -> None:
        self._open_stream = open_stream
        self._finished = finished
        self._room = room
        self.is_batch = is_batch
        self._answers: list[bytes] = []
        self._owed = 0
        self._is_sealed = False
        self._is_left = False
        self.has_answer = False
        self.has_owed = False
        self._decided: asyncio.Future[None] | None = None
        self._outlet: Outlet | None = None
        self.stream: Stream | None = None
        self.status: tuple[int, Fields] = (200, ())

    # What is said...

    def owe(self) -> None:
        """One more answer is to come."""
        self._owed += 1
        self.has_owed = True

    def send(self, data: bytes) -> None:
        """Send something before the answers."""
        if not self.is_over:
            self.begin().send(data)

    def answer(self, data: bytes, status: tuple[int, Fields] | None = None) -> None:
        """Send one answer; its status counts where it is alone and no stream."""
        if status is not None and not self.is_batch:
            self.status = status
        self.has_answer = True
        if self.stream is not None:
            self.stream.send(data)
        else:
            self._answers.append(data)
        self.withdraw()

    def withdraw(self) -> None:
        """One answer fewer is to come."""
        self._owed -= 1
        self._settle()

    def seal(self) -> None:
        """All that was posted has been taken: what is owed now is all."""
        self._is_sealed = True
        self._settle()

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come any more."""
        return self._is_sealed and not self._owed

    def _settle(self) -> None:
        if not self.is_over:
            return
        self._decide()
        if self.stream is not None:
            self.stream.end()
        self._finished(self)

    def begin(self) -> Stream:
        """Answer with a stream from here on."""
        if self.stream is None:
            stream = self.stream = self._open_stream()
            if not self._is_left:
                outlet = self._outlet = Outlet(self._room)
                stream.attach(outlet)
                stream.prime(outlet)
            for data in self._answers:
                stream.send(data)
            self._answers.clear()
            self._decide()
        return self.stream

    def _decide(self) -> None:
        if self._decided is not None and not self._decided.done():
            self._decided.set_result(None)

    def pause(self, retry: float | None = None) -> None:
        """End the connection and not the stream; the client comes back for the rest."""
        if not self.is_over:
            self.begin().pause(retry)

    # The response...

    def as_json(self) -> bytes | None:
        """Return all of it, where that is JSON; ``None``: not yet, or it is not."""
        if self._owed or self.stream is not None or not self._answers:
            return None
        if self.is_batch:
            return b"[" + b",".join(self._answers) + b"]"
        return self._answers[0]

    async def respond(self, exchange: Exchange, fields: Fields = ()) -> None:
        """Answer the POST.

        Raises:
            ClientGone: Nobody takes the answer.
        """
        if not self.is_over and self.stream is None:
            await self._wait(exchange)
        outlet, stream = self._outlet, self.stream
        if outlet is not None and stream is not None:
            try:
                await outlet.carry(exchange, fields)
            finally:
                stream.detach(outlet)
        elif (data := self.as_json()) is not None:
            status, more = self.status
            await exchange.reply_bytes(status, data, JSON, (*fields, *more))
        else:
            # All of it was withdrawn: a stream without answers says so.
            await exchange.start_stream(fields)
            await exchange.end()

    async def _wait(self, exchange: Exchange) -> None:
        self._decided = asyncio.get_running_loop().create_future()
        exchange.clocks.upgrade.add(self._take_time)
        try:
            await self._decided
        except asyncio.CancelledError:
            self._is_left = True
            if self.stream is not None and self._outlet is not None:
                self.stream.detach(self._outlet)
            raise
        finally:
            exchange.clocks.upgrade.discard(self._take_time)
            self._decided = None

    def _take_time(self) -> None:
        if not self.is_over:
            self.begin()
