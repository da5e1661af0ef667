"""Taps: they stand between a client and a server, and record both sides."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio

from mcpwire.errors import ConnectError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.testing.faults import detach_descriptor
from mcpwire.wire.urls import is_loopback

if TYPE_CHECKING:
    from mcpwire.server.http.exchange import Receive, Scope, Send
    from mcpwire.testing.tape import Recorder, Side
    from mcpwire.transports.targets import Stdio

    Fields = list[tuple[bytes, bytes]]

logger = logging.getLogger(__name__)

_HOP_FIELDS: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade", b"host", b"accept-encoding"),
    }
)
"""Fields of one connection, and those that the tap sets itself."""

DRAIN_S: Final = 1.0
"""Time for the output of an exited server to end, while the client reads it."""

_READ_SIZE: Final = 65_536

PASSED_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def tap_command(target: Stdio, recorder: Recorder) -> int:
    """Run a command between stdin and stdout, and record them; return its exit code.

    It has the environment of this process. Signals of `PASSED_SIGNALS` are passed on.

    Raises:
        ConnectError: The command cannot be started.
    """
    try:
        child = subprocess.Popen(  # noqa: S603 - the user's own command
            [target.command, *target.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(target.env or {})},
            cwd=target.cwd,
        )
    except OSError as error:
        problem = f"cannot start {target.command!r}: {error.strerror}"
        raise ConnectError(problem) from error
    assert child.stdin is not None
    assert child.stdout is not None

    def pass_on(number: int, _: object) -> None:
        # A terminal sends SIGINT to the command, too.
        if number != signal.SIGINT or not _is_in_foreground():
            child.send_signal(number)

    for name in PASSED_SIGNALS:
        signal.signal(getattr(signal, name), pass_on)
    to_server, from_server = os.dup(child.stdin.fileno()), os.dup(child.stdout.fileno())
    child.stdin.close()
    child.stdout.close()
    _Copy("client", detach_descriptor(0, os.O_RDONLY), to_server, recorder).start()
    output = _Copy("server", from_server, detach_descriptor(1, os.O_WRONLY), recorder)
    output.start()
    code = child.wait()
    output.join(DRAIN_S)
    while output.is_writing:  # else a process of the server keeps its output open
        output.join(DRAIN_S)
    return code


def _is_in_foreground() -> bool:
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123 - not a file
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False  # there is no terminal


class _Copy(threading.Thread):
    """Copies bytes from one descriptor to another until either end closes."""

    def __init__(
        self, side: Side, source_fd: int, target_fd: int, recorder: Recorder
    ) -> None:
        super().__init__(daemon=True)
        self.is_writing = False
        self._side = side
        self._source_fd = source_fd
        self._target_fd = target_fd
        self._recorder = recorder

    def run(self) -> None:
        """Copy and record; then close both descriptors."""
        with contextlib.suppress(OSError):  # the reader has closed
            while data := os.read(self._source_fd, _READ_SIZE):
                self._recorder.add(self._side, data)
                self.is_writing = True
                while data:
                    data = data[os.write(self._target_fd, data) :]
                self.is_writing = False
        self._recorder.end(self._side)
        self.is_writing = False
        os.close(self._source_fd)
        os.close(self._target_fd)


class HttpTap:
    """An ASGI application that records the exchanges with a server at a URL.

    Bodies are passed on unchanged while they arrive, and header fields except those
    of the connection. The server is asked not to compress its responses.
    """

    limits = DEFAULT_LIMITS
    auth = None

    def __init__(self, url: str, recorder: Recorder) -> None:
        self._url = urlsplit(url)
        self._recorder = recorder
        self._numbers = itertools.count(1)

    def asgi(self, **_: Any) -> HttpTap:
        """Return the application."""
        return self

    async def start(self) -> None:
        """Open the client."""
        import httpx  # not needed by `tap_command`

        # As slow and as parallel as the client and the server are.
        unlimited = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(timeout=None, limits=unlimited)  # noqa: S113

    async def drain(self, timeout: float = 0.0) -> None:
        """Do nothing: open streams are closed with the connections."""

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, until either side ends it."""
        headers = list(scope["headers"])
        if not _is_for_this_machine(headers):
            # A name of an attacker's page that resolves to this machine.
            await _respond(send, 403, "only requests to this machine are passed on")
            return
        body = bytearray()
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                return
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(watch)
            await self._exchange(scope, headers, bytes(body), send)
            group.cancel_scope.cancel()

    async def _exchange(
        self, scope: Scope, headers: Fields, body: bytes, send: Send
    ) -> None:
        import httpx

        number, add = next(self._numbers), self._recorder
        query = scope["query_string"].decode("latin-1") or self._url.query
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        add.add_head(
            "client", _head(f"{scope['method']} {path} HTTP/1.1", headers), number
        )
        add.add("client", body, number)
        add.end("client", number)
        fields = [field for field in headers if field[0] not in _HOP_FIELDS]
        fields.append((b"accept-encoding", b"identity"))
        origin = f"{self._url.scheme}://{self._url.netloc}"
        try:
            request = httpx.Request(
                scope["method"], f"{origin}{path}", headers=fields, content=body
            )
            response = await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            add.end("server", number)
            await _respond(send, 502, f"{origin}: {error!r}")
            return
        try:
            fields = [
                (name.lower(), value)
                for name, value in response.headers.raw
                if name.lower() not in _HOP_FIELDS
            ]
            add.add_head(
                "server", _head(f"HTTP/1.1 {response.status_code}", fields), number
            )
            start = {"status": response.status_code, "headers": fields}
            await send({"type": "http.response.start", **start})
            more = {"type": "http.response.body", "more_body": True}
            await send({**more, "body": b""})  # the head, before any event of a stream
            async for data in response.aiter_raw():
                add.add("server", data, number)
                await send({**more, "body": data})
            await send({"type": "http.response.body", "body": b""})
        except httpx.HTTPError as error:  # the client's connection ends, too
            logger.warning("%s has not completed its response: %r", origin, error)
        finally:
            add.end("server", number)
            with anyio.CancelScope(shield=True):
                await response.aclose()


def _is_for_this_machine(fields: Fields) -> bool:
    host = next((value for name, value in fields if name == b"host"), b"")
    try:
        name = urlsplit(f"//{host.decode('latin-1')}").hostname
    except ValueError:
        name = None
    return is_loopback(name or "")


def _head(first: str, fields: Fields) -> str:
    lines = [
        f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in fields
    ]
    return "\n".join([first, *lines])


async def _respond(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    fields = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
