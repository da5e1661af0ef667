"""Runs a server over HTTP with uvicorn, until it is told to stop, and then gracefully.

uvicorn waits for its connections before it tells the application that it ends, and
event streams do not end by themselves. So the application is drained first, while new
requests are still answered with 503; then uvicorn may go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import LocalProtocolError
from mcpwire.server.http.receiving.protocols import mended
from mcpwire.server.lifespan import end_soon, leave_threads
from mcpwire.transports.tasks.first_step import FirstSteps
from mcpwire.wire.urls import address_class, is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpwire.limits import Limits
    from mcpwire.server.auth.resource import ResourceServer
    from mcpwire.server.http.exchange import Receive, Scope, Send

__all__ = ["CannotListen", "read_address", "run_http", "serve_http"]

logger = logging.getLogger("mcpwire")

LOCAL: Final = "127.0.0.1"
"""2026-07-28 streamable-http, "Security Endpoint": local servers listen here only."""

BACKLOG: Final = 2_048

KEEP_ALIVE_S: Final = 30
"""How long an idle connection is kept; clients give them up before."""

LAST_GRACE_S: Final = 1
"""How long connections may stay when everything on them has been answered."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "lifespan": "off",  # it is started and ended here
    "log_config": None,
    "log_level": "warning",
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "ws": "none",
    "timeout_keep_alive": KEEP_ALIVE_S,
    "timeout_graceful_shutdown": LAST_GRACE_S,
}
"""What uvicorn is told, unless somebody says otherwise."""

TASK_NAME: Final = "mcpwire-http-request"

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class App(Protocol):
    """An application that can be started, drained and closed, as `AsgiApp`."""

    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def start(self) -> None: ...

    async def drain(self, timeout: float = ...) -> None: ...

    async def aclose(self) -> None: ...


class Served(Protocol):
    """What can be served over HTTP: a `Server`, or a gateway."""

    @property
    def auth(self) -> ResourceServer | None: ...

    def asgi(self, **options: Any) -> App: ...


class CannotListen(OSError):
    """There is no listening at an address; says why."""


def run_http(
    server: Served,
    address: str = f"{LOCAL}:8000",
    *,
    around: Callable[[], contextlib.AbstractAsyncContextManager[object]] = (
        contextlib.nullcontext
    ),
    **options: Any,
) -> None:
    """Serve over HTTP as this process's whole work, until SIGINT or SIGTERM.

    A handler that does not end, be it in a thread, ends with the process, with exit
    code 0: then this does not return.

    Args:
        server: What is served.
        address: ``HOST:PORT``, or a port on this machine itself; 0 takes a free one.
        around: Gives what is entered before and left behind serving, on its loop.
        options: Those of `serve_http`.

    Raises:
        LocalProtocolError: uvicorn is not installed.
        ValueError: The address, or an option, is none.
        CannotListen: Nothing can listen there; it is an `OSError`.
    """
    _import_uvicorn()
    known = threading.enumerate()

    async def serve() -> list[threading.Timer]:
        async with around():
            await serve_http(server, address, has_signals=True, **options)
        return end_soon(0)

    for timer in asyncio.run(serve()):
        timer.cancel()
    leave_threads(known, 0)


async def serve_http(
    server: Served,
    address: str = f"{LOCAL}:8000",
    *,
    drain_timeout: float = 10.0,
    announce: Callable[[str], object] | None = None,
    has_signals: bool = False,
    uvicorn: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Serve over HTTP until this is cancelled; then end gracefully.

    Args:
        server: What is served.
        address: ``HOST:PORT``, or a port on this machine itself; 0 takes a free one.
        drain_timeout: How long calls may still take when it ends, in seconds.
        announce: Told the endpoint's URL when requests are taken; by default it is
            written to stderr.
        has_signals: Whether SIGINT and SIGTERM end it; a second one ends it at once.
        uvicorn: More options of uvicorn: ``ssl_certfile`` and others.
        options: Those of `Server.asgi`.

    Raises:
        LocalProtocolError: uvicorn is not installed.
        ValueError: The address, or an option, is none.
        CannotListen: Nothing can listen there; it is an `OSError`.
    """
    host, port = read_address(address)
    app = server.asgi(**{"bound": _name(host), **options})
    first_steps = FirstSteps(TASK_NAME)
    runner = _runner(
        app, drain_timeout, uvicorn or {}, first_steps, has_signals=has_signals
    )
    listening = _listen(host, port)
    try:
        await app.start()
        path = options.get("path", "/mcp")
        scheme = "https" if (uvicorn or {}).get("ssl_certfile") else "http"
        url = f"{scheme}://{_spell(listening)}{path}"
        _warn(server, listening)
        (announce or _to_stderr)(url)
        await _run(runner, listening)
    finally:
        listening.close()
        await app.aclose()
        first_steps.close()


async def _run(runner: Any, listening: socket.socket) -> None:
    """Run uvicorn; being cancelled, let it end gracefully first."""
    running = asyncio.get_running_loop().create_task(
        runner.serve(sockets=[listening]), name="mcpwire-http-serve"
    )
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        runner.should_exit = True
        await asyncio.wait([running])
        raise


def _import_uvicorn() -> Any:
    try:
        import uvicorn
    except ImportError:
        raise LocalProtocolError(
            "serving over HTTP needs uvicorn: pip install 'mcpwire[server]'"
        ) from None
    return uvicorn


def _runner(
    app: App,
    drain_timeout: float,
    options: Mapping[str, Any],
    first_steps: FirstSteps,
    *,
    has_signals: bool,
) -> Any:
    """Return a uvicorn server that drains the application before it ends."""
    uvicorn = _import_uvicorn()

    class Runner(uvicorn.Server):  # type: ignore[misc, name-defined] # is imported late
        """Drains first; ends by signals without passing them on."""

        forced = asyncio.Event()
        should_exit: bool

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            loop = asyncio.get_running_loop()
            waiting = {
                loop.create_task(app.drain(drain_timeout), name="mcpwire-http-drain"),
                loop.create_task(self.forced.wait(), name="mcpwire-http-forced"),
            }
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            if self.forced.is_set():
                await app.drain(0)
            await super().shutdown(sockets)

        def stop(self) -> None:
            """End; asked again, end at once."""
            if self.should_exit:
                self.forced.set()
            self.should_exit = True

        def capture_signals(self) -> contextlib.AbstractContextManager[None]:
            return _signals(self.stop if has_signals else None)

    http = options.get("http", "auto")
    if (base := _named(http)) is not None:
        http = mended(base, app.limits.head, first_steps)
    return Runner(uvicorn.Config(app, **{**_OPTIONS, **options, "http": http}))


def _named(http: Any) -> Any:
    """Return uvicorn's protocol of that name, if it is one."""
    if http == "auto":
        from uvicorn.protocols.http.auto import AutoHTTPProtocol

        return AutoHTTPProtocol
    if http == "h11":
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol
    if http == "httptools":
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        return HttpToolsProtocol
    return None


@contextlib.contextmanager
def _signals(stop: Callable[[], None] | None) -> Iterator[None]:
    """Let signals stop the server; afterwards they are what they were."""
    loop = asyncio.get_running_loop()
    before = {}
    for number in SIGNALS if stop is not None else ():
        # Some platforms' loops have none, and only the main thread can have any.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            handler = signal.getsignal(number)
            loop.add_signal_handler(number, stop)  # type: ignore[arg-type] # not None
            before[number] = handler
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


# Where it listens...


def read_address(address: str) -> tuple[str, int]:
    """Return the host and the port of an address.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(address, str):
        raise ValueError(f"the address must be a text, HOST:PORT, got {address!r}")
    host, colon, digits = address.rpartition(":")
    if not colon:
        host = ""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"an IPv6 address needs brackets, got {address!r}")
    if not digits.isdecimal() or not digits.isascii() or not 0 <= int(digits) < 2**16:
        raise ValueError(f"the address must be HOST:PORT, got {address!r}")
    return host or LOCAL, int(digits)


def _name(host: str) -> str | None:
    """Return what a server there is called; all addresses together have no name."""
    return None if address_class(host) == "unspecified" else host.lower()


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        CannotListen: Nothing can.
    """
    try:
        return _listening(host, port)
    except OSError as error:
        raise CannotListen(
            error.errno, f"cannot listen on {host!r}, port {port}: {error.strerror}"
        ) from error


def _listening(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
    )
    # Where a name has both, most clients try IPv4 sooner or later.
    family, kind, protocol, _, place = min(
        found, key=lambda each: each[0] != socket.AF_INET
    )
    # With the protocol named, asyncio switches Nagle's algorithm off on what it
    # accepts: else each answer of a head and a body would wait for an acknowledgement.
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it means that others may listen there, too
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _spell(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _warn(server: Served, listening: socket.socket) -> None:
    """Say it where anybody can reach a server that asks for nothing."""
    host = listening.getsockname()[0]
    if server.auth is None and not is_loopback(host):
        logger.warning(
            "everybody who reaches %s may use this server: it has no auth", host
        )


def _to_stderr(url: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"mcpwire: serving {url}\n")
        sys.stderr.flush()
