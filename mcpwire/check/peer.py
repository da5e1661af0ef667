"""Raw connections to a server: they send any octets and return all received octets.

They do not implement MCP: a case can send octets that a client refuses to send.
`Transcript` records the octets of both directions for the report.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcpwire.check.case import NoAnswer, PeerDied
from mcpwire.errors import RemoteProtocolError, last_error_line
from mcpwire.limits import Limits
from mcpwire.testing.procfs import cpu_state
from mcpwire.transports.http.h1 import ResponseReader
from mcpwire.transports.process import StderrTail, describe_exit, spawn
from mcpwire.wire.jsonrpc import LineDecoder
from mcpwire.wire.sse import SSEDecoder, SSEEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.transports.targets import Stdio
    from mcpwire.wire.urls import Url

HeaderValue: TypeAlias = "str | tuple[str, ...] | None"
"""Value of a header field; tuple: one line per value; ``None``: omit the field."""

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024  # bytes of one message, or of one body
MAX_RECORDED_OCTETS: Final = 16 * 1024  # recorded octets per case and direction
READ_SIZE: Final = 65_536
MAX_EVENTS: Final = 100_000  # of one event stream
_MAX_STREAM_BYTES: Final = 4 * MAX_MESSAGE_BYTES  # octets of one event stream
_CREDENTIALS: Final = re.compile(
    rb"(?im)^((?:proxy-)?authorization:[ \t]*(?:[\w-]{1,16}[ \t]+)?"
    rb"|(?:set-)?cookie:[ \t]*)\S[^\r\n]*"
)
_MIN_SECRET_PART: Final = 8  # minimum octets of a secret at the end of a shortened text
_LIMITS: Final = Limits()
_CONNECT_TIMEOUT_S: Final = 5.0
_MAX_IDLE_WAITS: Final = 1_000
_IDLE_INTERVAL_S: Final = 0.002
_GRACE_S: Final = 1.0  # until SIGTERM, and again until SIGKILL


@attrs.frozen
class Octets:
    """Octets of one write or read."""

    at: float
    """Seconds since the case began."""
    direction: Literal["sent", "received"]
    data: bytes
    stream: int = 0
    """The number of the HTTP exchange; 0 over stdio."""


def mask_credentials(data: bytes) -> bytes:
    """Mask credentials and cookies in the header fields of octets."""
    return _CREDENTIALS.sub(rb"\1***", data)


class Transcript:
    """Record of the first octets of a case, per direction; secrets are masked.

    Attributes:
        secrets: Octets that reports must mask, such as access tokens.
        last_sent: The last data that the case sent, as shown in reports.
    """

    def __init__(self) -> None:
        self.secrets: tuple[bytes, ...] = ()
        self.clear()

    def clear(self) -> None:
        """Discard the recorded octets before the next case."""
        self.octets: list[Octets] = []
        self.last_sent = b""
        self._started_at = monotonic()
        self._remaining = {"sent": MAX_RECORDED_OCTETS, "received": MAX_RECORDED_OCTETS}

    def masked(self, data: bytes) -> bytes:
        """Mask secrets, credentials and cookies in octets; no-op without secrets.

        Cases also send altered tokens, so credentials in header fields are masked.
        """
        if not self.secrets:
            return data
        for secret in self.secrets:
            data = data.replace(secret, b"***")
        return mask_credentials(data)

    def masked_text(self, text: str) -> str:
        """Mask secrets in a text, also the first part of one at a shortened end."""
        text = self.masked(text.encode("utf-8", "replace")).decode("utf-8", "replace")
        head = text.removesuffix("...")
        for secret in self.secrets if head != text else ():
            for size in range(len(secret) - 1, _MIN_SECRET_PART - 1, -1):
                if head.endswith(part := secret[:size].decode("utf-8", "replace")):
                    return f"{head.removesuffix(part)}***..."
        return text

    def add(
        self, direction: Literal["sent", "received"], data: bytes, stream: int = 0
    ) -> None:
        """Record octets up to the limit."""
        recorded = self.masked(data)[: self._remaining[direction]]
        self._remaining[direction] -= len(recorded)
        if recorded:
            at = monotonic() - self._started_at
            self.octets.append(Octets(at, direction, bytes(recorded), stream))


class StdioPeer:
    """Server as a child process; `on_line` receives each line of its stdout."""

    def __init__(
        self,
        target: Stdio,
        transcript: Transcript,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._target = target
        self._transcript = transcript
        self._on_line = on_line
        self._on_end = on_end
        self.output_ended = False
        self.line_ended = asyncio.Event()
        """Set unless the case has written a part of a line."""
        self.line_ended.set()

    async def open(self) -> None:
        """Start the process; kill it if opening the pipes fails or is cancelled.

        Raises:
            ConnectError: The process cannot be started.
        """
        loop = asyncio.get_running_loop()
        self._child = child = spawn(self._target, StderrTail(_LIMITS.stderr_tail))
        pipes = os.fdopen(child.stdout, "rb", 0), os.fdopen(child.stdin, "wb", 0)
        child.stdout = child.stdin = -1
        reader = asyncio.StreamReader(READ_SIZE, loop)
        try:
            self._read_transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), pipes[0]
            )
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipes[1]
            )
        except BaseException:
            child.kill()
            raise
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        self._reader_task = loop.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        lines = LineDecoder(MAX_MESSAGE_BYTES)
        while data := await reader.read(READ_SIZE):
            self._transcript.add("received", data)
            for line in lines.feed(data):
                self._on_line(bytes(line))
        for line in lines.finish():
            self._on_line(bytes(line))
        self.output_ended = True
        self._on_end()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._child.pid

    @property
    def has_exited(self) -> bool:
        """Whether the process has ended."""
        return self._child.exited.is_set()

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; negative: the number of the signal."""
        return self._child.exit_code

    @property
    def stderr(self) -> str:
        """The last part of its stderr output."""
        self._child.drain_stderr()
        return self._child.stderr.text

    def exit_finding(self) -> PeerDied:
        """Return a finding with the exit code and the last stderr line."""
        exit_text = f"the server {describe_exit(self.exit_code)}"
        if last := last_error_line(self.stderr):
            exit_text += f"; stderr ends with: {last}"
        return PeerDied("the server keeps running", exit_text)

    async def write(self, data: bytes) -> None:
        """Write octets; wait while the pipe is full.

        Raises:
            PeerDied: The process has ended.
            NoAnswer: The process has closed its stdin and still runs.
        """
        self._transcript.add("sent", data)
        (self.line_ended.set if data.endswith(b"\n") else self.line_ended.clear)()
        try:
            if not self._writer.is_closing():  # else asyncio logs a warning
                self._writer.write(data)
            await self._writer.drain()
        except (BrokenPipeError, ConnectionError):
            if await self.wait_exit(1.0):
                raise self.exit_finding() from None
            raise NoAnswer(
                "the server reads its input", "it closed its input but still runs"
            ) from None

    def close_input(self) -> None:
        """Close the server's stdin."""
        self._writer.close()

    async def write_last(self, data: bytes) -> None:
        """Write octets and close the server's stdin, with no other work in between.

        Raises the errors of `write`.
        """
        await self.write(b"")  # all earlier octets
        self._transcript.add("sent", data)
        fd = os.dup(self._writer.get_extra_info("pipe").fileno())
        self._writer.close()
        try:
            await self._writer.wait_closed()
            with contextlib.suppress(BrokenPipeError):
                os.write(fd, data)
        finally:
            os.close(fd)

    def close_output(self) -> None:
        """Close our end of the server's stdout, as happens when a client crashes."""
        self._read_transport.close()

    async def wait_exit(self, timeout: float) -> bool:
        """Wait until the process ends; return whether it has ended."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.exited.wait(), timeout)
        return self.has_exited

    _idle_waits_left = _MAX_IDLE_WAITS

    async def wait_idle(self) -> None:
        """Wait until no thread is busy; about 2 s in all if one always is."""
        while cpu_state(self.pid)[0]:
            if not self._idle_waits_left:
                return
            self._idle_waits_left -= 1
            await asyncio.sleep(_IDLE_INTERVAL_S)
        self._idle_waits_left = _MAX_IDLE_WAITS

    async def wait_while_busy(
        self, wait: Callable[[], Awaitable[bool]], max_waits: int
    ) -> bool:
        """Wait until a wait returns true, again while the process uses the CPU.

        Once only if `wait_idle` found that a thread is always busy.
        """
        for _ in range(max_waits if self._idle_waits_left else 1):
            before = cpu_state(self.pid)
            if await wait():
                return True
            after = cpu_state(self.pid)
            if after == before and not after[0]:
                break  # it is idle: more time does not help
        return False

    async def close(self) -> None:
        """Close its stdin, wait, then terminate its process group."""
        self._writer.close()
        try:
            await self._child.stop(close_grace=_GRACE_S, terminate_grace=_GRACE_S)
        finally:
            self._read_transport.close()
            self._reader_task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await self._reader_task


class Response:
    """One HTTP response while it is received.

    Attributes:
        status: The status code, once `head_received` is set.
        fields: The header fields, names in lower case, as text.
        body: The octets of a body that is not an event stream.
        events: The events of an event stream.
        text: The first octets of an event stream, for checks of its form.
        last_event_id: The id to resume an event stream from; "" without one.
        retry_ms: The last reconnection time of an event stream, in milliseconds.
        first_data: Set once any octet was received, such as those of 100 Continue.
        ended: Set at the end of the response.
        problem: Why the response is incomplete; "" if it is complete.
    """

    def __init__(
        self,
        number: int,
        on_data: Callable[[bytes], None],
        on_change: Callable[[], None],
    ) -> None:
        self.number = number
        self.status = 0
        self.fields: dict[str, str] = {}
        self.body = bytearray()
        self.events: list[SSEEvent] = []
        self.text = bytearray()
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self.first_data = asyncio.Event()
        self.head_received = asyncio.Event()
        self.ended = asyncio.Event()
        self.problem = ""
        self._on_data = on_data
        self._on_change = on_change
        self._sse: SSEDecoder | None = None
        self._size = 0
        self.writer: asyncio.StreamWriter | None = None

    @property
    def is_over(self) -> bool:
        """Always false: an error up to the end of the response counts."""
        return False

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self._sse is not None

    @property
    def media_type(self) -> str:
        """The media type of the body, in lower case, without parameters."""
        return self.fields.get("content-type", "").partition(";")[0].strip().lower()

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Receive the status and header fields."""
        self.status = status
        self.fields = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in fields.items()
        }
        if self.media_type == "text/event-stream":
            self._sse = SSEDecoder(MAX_MESSAGE_BYTES)
        self.head_received.set()

    def data(self, chunk: bytes) -> None:
        """Receive a part of the body.

        Raises:
            RemoteProtocolError: The body or the number of events exceeds its limit.
        """
        self._size += len(chunk)
        limit = MAX_MESSAGE_BYTES if self._sse is None else _MAX_STREAM_BYTES
        if self._size > limit or len(self.events) > MAX_EVENTS:
            raise RemoteProtocolError(
                f"more than {limit >> 20} MiB or {MAX_EVENTS:,} events in one response"
            )
        if self._sse is None:
            self.body += chunk
            return
        self.text += chunk[: max(0, READ_SIZE - len(self.text))]
        events = self._sse.feed(chunk)
        self.last_event_id = self._sse.last_event_id
        self.retry_ms = self._sse.retry
        for event in events:
            self.events.append(event)
            if event.data and event.event != "endpoint":
                self._on_data(event.data)
        self._on_change()

    @property
    def has_message(self) -> bool:
        """Whether the body may be a message; frameworks send their own errors."""
        is_jsonrpc = b'"jsonrpc"' in self.body
        is_error = b'"id"' in self.body and b'"error"' in self.body
        may_be_message = self.status < 400 or is_jsonrpc or is_error
        return self._sse is None and may_be_message and "json" in self.media_type

    def end(self) -> None:
        """Receive the end of the body."""
        if self.has_message:
            self._on_data(bytes(self.body))
        self.finish("")

    def finish(self, problem: str) -> None:
        """Mark the response as ended; `problem`: why it is incomplete."""
        if not self.ended.is_set():
            self.problem = problem
            self.first_data.set()
            self.head_received.set()
            self.ended.set()
            self._on_change()


class HttpPeer:
    """Server at a URL; each exchange uses a new connection."""

    def __init__(
        self,
        url: Url,
        headers: Mapping[str, str],
        transcript: Transcript,
        on_data: Callable[[bytes, int], None],
        on_end: Callable[[], None],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url = url
        self.headers = dict(headers)
        self._transcript = transcript
        self._on_data = on_data
        self._on_end = on_end
        self._tls = (
            (tls or ssl.create_default_context()) if url.scheme == "https" else None
        )
        self._exchanges: dict[asyncio.Task[None], Response] = {}
        self._exchange_count = 0

    async def exchange(
        self,
        method: str,
        headers: Mapping[str, HeaderValue],
        body: bytes | None,
        *,
        target: str | None = None,
    ) -> Response:
        """Send a request; do not wait for the response.

        Raises:
            PeerDied: The connection cannot be opened.
        """
        length = None if body is None else str(len(body))
        head = self.head(
            method, {"Content-Length": length, **headers}, target or self.url.target
        )
        return await self.send_raw(head + (body or b""))

    def head(
        self, method: str, headers: Mapping[str, HeaderValue], target: str
    ) -> bytes:
        """Return the head of a request; later fields replace those of equal name."""
        fields = {
            name.lower(): (name, value)
            for name, value in (
                ("Host", self.url.authority),
                *self.headers.items(),
                ("Connection", "close"),
                *headers.items(),
            )
        }
        lines = [f"{method} {target} HTTP/1.1"]
        for name, value in fields.values():
            values = (value,) if isinstance(value, str) else value or ()
            lines += [f"{name}: {line}" for line in values]
        return "\r\n".join([*lines, "", ""]).encode("utf-8")

    async def send_raw(self, data: bytes) -> Response:
        """Send octets on a new connection; do not wait for the response.

        Raises:
            PeerDied: The connection cannot be opened.
        """
        self._exchange_count += 1
        number = self._exchange_count
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(
                    self.url.host, self.url.port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            reason = str(error)
            if isinstance(error, ConnectionError) and error.errno:
                reason = os.strerror(error.errno)  # asyncio adds the address
            raise PeerDied(
                "the server accepts connections",
                f"cannot connect to {self.url.authority!r}: "
                f"{reason or type(error).__name__}",
            ) from None
        response = Response(
            number, lambda body: self._on_data(body, number), self._on_end
        )
        response.writer = writer
        self._transcript.add("sent", data, number)
        task = asyncio.get_running_loop().create_task(
            self._run_exchange(reader, writer, data, response)
        )
        self._exchanges[task] = response
        task.add_done_callback(lambda done: self._exchanges.pop(done, None))
        return response

    async def _run_exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        data: bytes,
        response: Response,
    ) -> None:
        h1 = ResponseReader(_LIMITS)
        h1.expect(response)
        try:
            writer.write(data)
            while not h1.is_complete:
                chunk = await reader.read(READ_SIZE)
                if not chunk:
                    h1.eof()
                    break
                self._transcript.add("received", chunk, response.number)
                response.first_data.set()
                h1.feed(chunk)
            response.finish("" if h1.is_complete else "the connection ended early")
        except Exception as error:  # noqa: BLE001 - any bad response is a finding
            response.finish(f"{type(error).__name__}: {error}")
        finally:
            response.finish("the check closed the connection")
            writer.transport.abort()

    def send_more(
        self, response: Response, data: bytes, *, is_last: bool = False
    ) -> None:
        """Send more octets on an open connection; `is_last`: then send EOF."""
        writer = response.writer
        if writer is None or response.ended.is_set():
            return
        self._transcript.add("sent", data, response.number)
        with contextlib.suppress(OSError, RuntimeError):  # the server has closed it
            writer.write(data)
            if is_last:
                writer.write_eof()

    async def close_exchange(self, response: Response) -> None:
        """Close the connection of an exchange."""
        for task in [
            task for task, each in self._exchanges.items() if each is response
        ]:
            await self._close_exchange(task, response)

    async def close(self) -> None:
        """Close all connections."""
        for task, response in list(self._exchanges.items()):
            await self._close_exchange(task, response)
        await asyncio.sleep(0)  # lets asyncio close the aborted transports

    async def _close_exchange(
        self, task: asyncio.Task[None], response: Response
    ) -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # A task that was cancelled before its first step has not closed its transport.
        response.finish("the check closed the connection")
        if response.writer is not None:
            response.writer.transport.abort()
