"""Calls over a duplex byte stream on asyncio: a `Peer`, a future per call, one timer.

The base of the stdio, memory, custom and legacy HTTP+SSE transports. A subclass moves
the bytes: it implements `_write` and passes received bytes to `receive`.

With at most one open call and no unanswered request of the peer, a channel writes at
once. Otherwise it gathers the writes of one iteration of the event loop, so that thirty
messages are one system call. Messages queued during a read are written after it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio import get_running_loop
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    InternalError,
    LocalProtocolError,
    MCPError,
    RPCError,
    TransportError,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.peer import Peer
from mcpwire.transports.base import Pending, TwoWayChannel
from mcpwire.wire.jsonrpc import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn, Trace
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

logger = logging.getLogger("mcpwire")

READ_BYTES: Final = 65_536
"""Bytes per read: the capacity of a pipe on Linux."""

FINAL_OUTPUT_S: Final = 0.1
"""Time for the end of the output after the peer has stopped reading or has exited."""

ORJSON_MIN_BYTES: Final = 4_096
"""Minimum size of the memory that orjson allocates for a text."""

MAX_WRITEV_BUFFERS: Final = 256
"""Maximum number of buffers per system call; Linux accepts up to 1,024."""


class Duplex(TwoWayChannel):
    """A `Channel` over a byte stream; subclasses read and write the bytes."""

    gathers = True
    """Whether lines may be written together; otherwise `_write` gets each alone."""

    def __init__(
        self,
        inbound: Inbound,
        *,
        role: str = "client",
        limits: Limits = DEFAULT_LIMITS,
        target: str | None = None,
    ) -> None:
        self._peer: Peer[Pending] = Peer(self, role=role, limits=limits)
        self.stats = self._peer.stats
        super().__init__(inbound, self._peer.outstanding, limits, target)
        self._gathered: list[bytes] = []
        self._is_reading = False
        self._queued = 0
        self._written = 0
        self._trace: Trace | None = None

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that the operating system has taken."""
        self._update_written()
        return self._written

    @property
    def bytes_received(self) -> int:
        """Number of received bytes."""
        return self._peer.bytes_received

    @property
    def role(self) -> str:
        """``"client"`` or ``"server"``."""
        return self._peer.role

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` until the handshake has decided."""
        return self._peer.revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._peer.revision = revision

    @property
    def requests_sent(self) -> int:
        """Number of started requests."""
        return self._peer.requests_sent

    # Calls

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Perform a request; see `Channel.call`."""
        loop = self._loop
        if self._lost is not None or headers or get_running_loop() is not loop:
            raise self._refusal(headers)
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        pending = Pending(method, future, deadline, on_notification, handle)
        id, line = self._peer.start_request(
            method, params, pending, progress=on_notification is not None
        )
        if handle is not None:
            handle.request_id = id
        pending.id = id
        pending.end = self._queued + len(line)
        try:
            self._send(line)
        except TransportError:
            self._peer.drop_request(id)
            raise
        if deadline is not None and deadline.at < self._timeouts.at:
            self._timeouts.arm(deadline.at)
        try:
            return await future
        except asyncio.CancelledError:
            self._send_cancellation(pending, "the caller cancelled")
            raise
        finally:
            del future, pending  # an error refers to this frame: avoid a cycle

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Channel.notify`."""
        if headers:
            raise self._refusal(headers)
        self.notify_nowait(method, params)

    def notify_nowait(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> None:
        """Send a notification without suspending."""
        if self._lost is not None or get_running_loop() is not self._loop:
            raise self._refusal()
        self._send(self._peer.notify(method, params))

    def _refusal(self, headers: Mapping[str, str] | None = None) -> MCPError:
        error = super()._refusal()
        if headers and not isinstance(error, LocalProtocolError):
            return LocalProtocolError(
                "headers can be sent over HTTP only; this connection is "
                f"{self.target or 'not over HTTP'}"
            )
        return error

    def _send_cancellation(self, call: Pending, reason: str) -> None:
        line = self._peer.cancel(call.id, reason)
        if line is not None and self._lost is None:
            try:
                self._send(line)
            except TransportError:
                return  # the peer does not read: it cannot be notified

    # Callbacks of the peer (`protocol.peer.Owner`)

    def on_notification(
        self, method: str, params: dict[str, Any] | None, call: Pending | None
    ) -> None:
        """Pass a notification to its call, or else to the `Inbound`."""
        if call is None:
            self._inbound.notification(method, params, None)
        elif not self._notify_call(method, params, call):
            self._inbound.notification(method, params, call.handle)

    def on_request(
        self, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """Pass a request of the peer on, with the function that answers it."""
        answer = partial(self._reply, id)
        if self._peer.role == "client":
            calls = self._unfinished_calls()
            self._pass_request(id, method, params, answer, None, calls)
        else:
            self._inbound.request(id, method, params, answer, None)

    def transmit(self, data: bytes) -> None:
        """Send a line that the `Peer` itself has produced."""
        if self._lost is None:
            try:
                self._send(data)
            except TransportError as error:
                self._mark_lost(error)

    def _reply(self, id: RequestId, answer: dict[str, Any] | RPCError) -> None:
        """Send an answer; if it cannot be encoded as JSON, send an internal error."""
        try:
            if isinstance(answer, RPCError):
                line = self._peer.refuse(id, answer)
            else:
                line = self._peer.answer(id, answer)
        except LocalProtocolError as error:
            logger.exception("the answer to %.100r cannot be sent", id)
            line = self._peer.refuse(
                id, InternalError(f"the answer could not be encoded: {error}")
            )
        self._timeouts.resume(id)
        if line is not None:
            self.transmit(line)

    # Bytes

    def _send(self, data: bytes) -> None:
        """Write or queue complete lines; all sent messages pass through here."""
        if self._trace is not None:
            for line in data.splitlines():
                self._trace("send", line)
        queued = self._queued + len(data)
        if queued - self._written > self.limits.unwritten:
            self._check_unwritten(len(data))
        self._queued = queued
        if self.gathers and (self._gathered or self._is_reading):
            self._gathered.append(data)
        elif self.gathers and (len(self._calls) > 1 or self._peer.unanswered):
            self._gathered.append(data)
            self._loop.call_soon(self._on_iteration_end)
        else:
            self._write(data)
            if self._trace is not None:
                self._trace_written()

    def _check_unwritten(self, size: int) -> None:
        """Raise an error if `size` more bytes exceed the limit of unwritten bytes."""
        limit = self.limits.unwritten
        self._update_written()
        unwritten = self._queued - self._written
        if unwritten and unwritten + size > limit:
            raise TransportError(
                f"the peer does not read: {unwritten} bytes are unwritten "
                f"(Limits.unwritten is {limit})",
                target=self.target,
            )

    def _on_iteration_end(self) -> None:
        self._flush()

    def _flush(self) -> None:
        """Write the gathered lines."""
        gathered = self._gathered
        if not gathered or self._lost is not None:
            return
        data = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        gathered.clear()
        self._write(data)
        if self._trace is not None:
            self._trace_written()

    def _write(self, data: bytes) -> None:
        """Write bytes; add the number of taken bytes to `_written`; must not raise."""
        raise NotImplementedError

    def _update_written(self) -> None:
        """Update `_written` if `_write` itself does not do that."""

    def _on_all_written(self) -> None:
        """Report that all bytes are written; called by subclasses with a queue."""
        if self._trace is not None:
            self._trace_written()

    def set_trace(self, trace: Trace) -> None:
        """Report all further messages and bytes to a trace hook."""
        self._trace = trace
        self._trace_lines = LineDecoder(self.limits.message)
        self._traced_bytes = 0

    def _trace_written(self) -> None:
        assert self._trace is not None
        count = self.bytes_sent
        if count > self._traced_bytes:
            self._traced_bytes = count
            self._trace("written", count)

    def _trace_read(self, data: bytes) -> None:
        assert self._trace is not None
        self._trace("read", data)
        for line in self._trace_lines.feed(data):
            self._trace("receive", bytes(line.rstrip(b"\r\n")))

    def receive(self, data: bytes) -> None:
        """Process received bytes; called by subclasses while the channel is open."""
        if self._trace is not None:
            self._trace_read(data)
        self._is_reading = True
        try:
            try:
                self._peer.receive(data)
            finally:
                self._is_reading = False
                if self._gathered:
                    self._flush()
        except MCPError as error:
            self._mark_lost(self._closed_error(cause=error), error)

    # End of the connection

    def _end_calls(self) -> list[Pending]:
        if self._trace is not None and not self._trace_lines.overflow:
            for line in self._trace_lines.finish():
                self._trace("receive", bytes(line).rstrip(b"\r"))
        calls = self._peer.end()
        self._gathered.clear()
        return calls

    def _was_sent(self, call: Pending) -> bool:
        # The peer may understand a line before its newline is written.
        return self._written >= call.end - 1

    async def aclose(self) -> None:
        """Close the channel; open calls fail with `ConnectionClosed`."""
        self._flush()
        await super().aclose()


# Pipes


def unwatch_descriptor(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    """Stop watching a descriptor; do nothing if the loop is closed."""
    if not loop.is_closed():
        loop.remove_reader(fd)
        loop.remove_writer(fd)


class PipeDuplex(Duplex):
    """A channel that owns two descriptors: it reads one and writes the other."""

    def __init__(
        self, inbound: Inbound, read_fd: int, write_fd: int, **options: Any
    ) -> None:
        super().__init__(inbound, **options)
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._unwritten: deque[bytes | memoryview] = deque()
        self._write_failed = False
        self._start_reading()

    def _start_reading(self) -> None:
        """Make both descriptors non-blocking and watch for input."""
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._loop.add_reader(self._read_fd, self._on_readable)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._on_stream_end(f"reading failed: {error.strerror}", error)
            return
        if data:
            # After the end, bytes are read and discarded, so that the peer can end.
            if self._lost is None:
                self.receive(data)
        else:
            self._on_stream_end("the peer closed its output")

    def _write(self, data: bytes) -> None:
        if self._unwritten:
            # A short text of orjson's occupies 4 KiB, and a peer that does not read
            # can cause many of them with its requests: a copy occupies its own size.
            is_short = len(data) < ORJSON_MIN_BYTES
            self._unwritten.append(bytes(memoryview(data)) if is_short else data)
            return
        if self._write_failed:
            return
        try:
            count = os.write(self._write_fd, data)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError as error:
            self._fail_write(error)
            return
        self._written += count
        if count != len(data):
            self._unwritten.append(memoryview(data)[count:])
            self._watch_writable()

    def _on_writable(self) -> None:
        unwritten = self._unwritten
        try:
            count = os.writev(
                self._write_fd, list(islice(unwritten, MAX_WRITEV_BUFFERS))
            )
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail_write(error)
            return
        self._written += count
        while count:
            first = unwritten[0]
            if count < len(first):
                unwritten[0] = memoryview(first)[count:]
                return
            count -= len(unwritten.popleft())
        if not unwritten:
            self._on_all_written()

    def _watch_writable(self) -> None:
        """Resume writing when the operating system takes more bytes."""
        self._loop.add_writer(self._write_fd, self._on_writable)

    def _on_all_written(self) -> None:
        self._loop.remove_writer(self._write_fd)
        super()._on_all_written()

    def _fail_write(self, error: OSError) -> None:
        """Stop writing; the last output of the peer may still be read."""
        self._write_failed = True
        self._loop.remove_writer(self._write_fd)
        self._unwritten.clear()
        self._loop.call_later(
            FINAL_OUTPUT_S,
            self._on_stream_end,
            f"the peer closed its input: {error.strerror}",
            error,
        )

    def _on_stream_end(self, reason: str, cause: BaseException | None = None) -> None:
        """Handle the end of the input; subclasses may add a reason."""
        self._stop_reading()
        self._mark_lost(TransportError(reason, target=self.target), cause)

    def _stop_reading(self) -> None:
        if self._read_fd >= 0:
            unwatch_descriptor(self._loop, self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1

    def _stop_writing(self) -> None:
        if self._write_fd >= 0:
            self._unwritten.clear()
            unwatch_descriptor(self._loop, self._write_fd)
            os.close(self._write_fd)
            self._write_fd = -1
            self._write_failed = True

    def after_fork(self) -> None:
        """Close the descriptors, but not through the loop: its epoll is shared."""
        super().after_fork()
        self._unwritten.clear()
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._read_fd = self._write_fd = -1
        self._write_failed = True

    def abandon(self) -> None:
        """Close both descriptors at once, from any thread, without waiting."""
        super().abandon()
        self._stop_writing()
        self._stop_reading()

    async def aclose(self) -> None:
        """Write the bytes that the peer takes at once; close both descriptors."""
        await super().aclose()
        self._stop_writing()
        self._stop_reading()


def can_watch(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop can watch descriptors (`add_reader`)."""
    return type(loop).add_reader is not asyncio.AbstractEventLoop.add_reader
