"""A transport of httpx that calls an ASGI application directly, without a socket.

::

    app = server.asgi()
    async with httpx.AsyncClient(transport=AsgiTransport(app)) as http_client:
        target = mcpwire.Http("http://localhost/mcp", http_client=http_client)
        async with mcpwire.Client(target) as client:
            ...

Unlike `httpx.ASGITransport` it streams: heads and chunks arrive while the application
runs, the application receives the client's disconnect, and it is paused while the
client does not read.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Self

    # httpx is not imported here: the transport works without its base class.
    from httpx import AsyncBaseTransport as Base
    from httpx import Request, Response

    from mcpwire.server.http.exchange import Event, Receive, Send

    Application = Callable[[Event, Receive, Send], Awaitable[None]]
else:
    Base = object

logger = logging.getLogger("mcpwire")

MAX_UNREAD_BYTES: Final = 65_536
"""Bytes that are buffered for the client before the application is paused."""

# The texts of h11, which clients match on.
NO_RESPONSE: Final = "Server disconnected without sending a response."
BODY_INCOMPLETE: Final = (
    "peer closed connection without sending complete message body "
    "(incomplete chunked read)"
)


class AsgiTransport(Base):
    """A transport for `httpx.AsyncClient` that calls an ASGI application.

    The first request starts the application (through ASGI's lifespan protocol if the
    application supports it), and closing the httpx client shuts it down: use that in
    ``async with``. An exception of the application is logged, and the client receives
    a 500 or a broken connection, as from a real server.

    Args:
        app: The application: `Server.asgi()`, or any other one.
        root_path: The path under which the application is mounted.
        client: Host and port that the application sees as the client's address.
        lifespan: Whether the application receives lifespan events.
    """

    def __init__(
        self,
        app: Application,
        *,
        root_path: str = "",
        client: tuple[str, int] = ("127.0.0.1", 50_000),
        lifespan: bool = True,
    ) -> None:
        self._app = app
        self._root_path = root_path
        self._client = client
        self._lifespan = Lifespan(app) if lifespan else None
        self._tasks: dict[asyncio.Task[None], _Exchange] = {}

    async def handle_async_request(self, request: Request) -> Response:
        """Send a request of httpx; return the response when its head has arrived.

        Raises:
            RuntimeError: The application could not start.
            httpx.RemoteProtocolError: The application was cancelled before a response.
            httpx.ReadTimeout: The response did not begin within the read timeout.
        """
        if self._lifespan is not None:
            await self._lifespan.start()
        library: Any = sys.modules[type(request).__module__.partition(".")[0]]
        exchange = _Exchange(library, request)
        call = self._app(self._scope(request), exchange.receive, exchange.send)
        task = asyncio.ensure_future(call)
        self._tasks[task] = exchange
        task.add_done_callback(self._on_done)
        try:
            await exchange.put_body(request)
            status, fields = await exchange.head()
        except BaseException:
            exchange.disconnect()
            raise
        stream = _stream_class(library)(exchange)
        extensions = {"http_version": b"HTTP/1.1"}
        response: Response = library.Response(
            status, headers=fields, stream=stream, extensions=extensions
        )
        return response

    async def aclose(self) -> None:
        """Disconnect all open requests, and shut the application down."""
        for exchange in self._tasks.values():
            exchange.disconnect()
        tasks = set(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GRACE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=GRACE_S)
        if self._lifespan is not None:
            await self._lifespan.stop()

    async def __aenter__(self) -> Self:
        if self._lifespan is not None:
            await self._lifespan.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        exchange = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not exchange.is_disconnected:
            logger.error("the ASGI application failed", exc_info=error)
        elif exchange.start is None and not exchange.is_disconnected:
            logger.error("the ASGI application has returned without an answer")
        exchange.finish(is_cancelled=task.cancelled())

    def _scope(self, request: Request) -> Event:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        return {
            "type": "http",
            "asgi": dict(ASGI),
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": self._root_path,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": self._client,
            "server": (url.host, port),
            "state": {} if self._lifespan is None else dict(self._lifespan.state),
        }


class _Exchange:
    """One request and its response, between the application and httpx."""

    def __init__(self, library: Any, request: Request) -> None:
        self._library = library
        self._has_body = request.method != "HEAD"
        self._read_timeout = request.extensions.get("timeout", {}).get("read")
        self._body_parts: deque[Event] = deque()
        self.start: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._chunks: deque[bytes] = deque()
        self._unread = 0
        self._is_complete = False
        self._failure: str | None = None
        self._changed = asyncio.Event()
        self.is_disconnected = False

    def _notify(self) -> None:
        """Wake all waiting tasks; each checks its condition again."""
        self._changed.set()
        self._changed.clear()

    # The application's side

    async def receive(self) -> Event:
        """Return the next part of the request's body, or the client's disconnect."""
        while not self._body_parts:
            if self.is_disconnected or self._is_complete:
                return {"type": "http.disconnect"}
            await self._changed.wait()
        return self._body_parts.popleft()

    async def send(self, event: Event) -> None:
        """Accept an event of the response; wait while the client does not read.

        Raises:
            OSError: The client has disconnected (ASGI, "Disconnected Client").
            RuntimeError: The event is not allowed in this state.
        """
        if self.is_disconnected:
            raise BrokenPipeError("the client is gone")
        kind = event["type"]
        if kind == "http.response.start" and self.start is None:
            fields = [(bytes(name), bytes(value)) for name, value in event["headers"]]
            self.start = (event["status"], fields)
            self._notify()
        elif kind == "http.response.body" and self.start and not self._is_complete:
            await self._send_body(event)
        else:
            raise RuntimeError(f"there must be no {kind!r} now")

    async def _send_body(self, event: Event) -> None:
        assert self.start is not None
        chunk = bytes(event.get("body", b""))
        if chunk and self._has_body and self.start[0] not in {204, 304}:
            self._chunks.append(chunk)
            self._unread += len(chunk)
        self._is_complete = not event.get("more_body", False)
        self._notify()
        while self._unread > MAX_UNREAD_BYTES and not (
            self.is_disconnected or self._is_complete
        ):
            await self._changed.wait()

    def finish(self, *, is_cancelled: bool) -> None:
        """Handle the end of the application's call."""
        if self.start is None and not is_cancelled:
            self.start = (500, [(b"content-type", b"text/plain")])
            self._chunks.append(b"Internal Server Error")
            self._is_complete = True
        elif not self._is_complete:
            self._failure = NO_RESPONSE if self.start is None else BODY_INCOMPLETE
        self._notify()

    # The client's side

    async def put_body(self, request: Request) -> None:
        """Queue the request's body for the application, a stream as it arrives."""
        try:
            last = request.content
        except self._library.RequestNotRead:
            async for chunk in request.stream:  # type: ignore[union-attr] # as httpx checked
                self._queue_body(chunk, more=True)
            last = b""
        self._queue_body(last)

    def _queue_body(self, chunk: bytes, *, more: bool = False) -> None:
        event = {"type": "http.request", "body": chunk, "more_body": more}
        self._body_parts.append(event)
        self._notify()

    async def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Wait for the status and headers of the response; return them."""
        while self.start is None:
            await self._wait_for_change()
        return self.start

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the response's body as they arrive."""
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._unread -= len(chunk)
                self._notify()
                yield chunk
            if self._is_complete:
                return
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        if self._failure is not None:
            raise self._library.RemoteProtocolError(self._failure)
        try:
            async with asyncio.timeout(self._read_timeout):
                await self._changed.wait()
        except TimeoutError as error:
            raise self._library.ReadTimeout("nothing came in time") from error

    def disconnect(self) -> None:
        """Disconnect; the application receives that unless its response is complete."""
        if not self._is_complete:
            self.is_disconnected = True
            self._notify()


@cache
def _stream_class(library: Any) -> Any:
    """Return the class of a response's body, a subclass of the library's own."""

    class Stream(library.AsyncByteStream):  # type: ignore[misc] # a dynamic base class
        def __init__(self, exchange: _Exchange) -> None:
            self._exchange = exchange

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._exchange.body():
                yield chunk

        async def aclose(self) -> None:
            self._exchange.disconnect()

    return Stream


GRACE_S: Final = 1.0
"""Time for requests to end after their client has closed."""

SHUTDOWN_TIMEOUT_S: Final = 10.0
"""Time for the application to shut down."""

ASGI: Final = {"version": "3.0", "spec_version": "2.4"}


class Lifespan:
    """Starts and shuts down an application through ASGI's lifespan protocol."""

    _started: asyncio.Future[None]
    _stopped: asyncio.Future[None]

    def __init__(self, app: Application) -> None:
        self._app = app
        self.state: dict[str, Any] = {}
        self._task: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def start(self) -> None:
        """Start the application once; concurrent callers wait for the same start.

        Raises:
            RuntimeError: The application reported that its start failed.
        """
        if self._task is None:
            loop, self._events = asyncio.get_running_loop(), asyncio.Queue()
            self._started, self._stopped = loop.create_future(), loop.create_future()
            self._events.put_nowait({"type": "lifespan.startup"})
            scope = {"type": "lifespan", "asgi": dict(ASGI), "state": self.state}
            call = self._app(scope, self._events.get, self._send)
            self._task = asyncio.ensure_future(call)
            self._task.add_done_callback(self._on_done)
        await asyncio.shield(self._started)

    async def stop(self) -> None:
        """Shut the application down if it was started."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._started.done():  # otherwise the start is cancelled
            self._events.put_nowait({"type": "lifespan.shutdown"})
            await asyncio.wait([self._stopped], timeout=SHUTDOWN_TIMEOUT_S)
        task.cancel()
        await asyncio.wait([task], timeout=GRACE_S)

    async def _send(self, event: Event) -> None:
        kind, message = event["type"], event.get("message")
        if kind == "lifespan.startup.failed" and not self._started.done():
            message = message or "the ASGI application could not start"
            self._started.set_exception(RuntimeError(message))
        elif kind == "lifespan.startup.complete":
            _resolve(self._started)
        else:
            if kind == "lifespan.shutdown.failed":
                logger.error("the ASGI application failed to end: %s", message)
            _resolve(self._stopped)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        """Count an early return as a start: the application has no lifespan support."""
        if not task.cancelled():
            task.exception()
        _resolve(self._started)
        _resolve(self._stopped)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
