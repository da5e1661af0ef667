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
from mcpwire.server.http.access import told_on_stderr
from mcpwire.server.http.uvicorn import Connections
from mcpwire.server.lifespan import end_soon, leave_threads
from mcpwire.server.log_limit import LogLimit
from mcpwire.wire.urls import address_class, is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpwire.limits import Limits
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.http.exchange import Receive, Scope, Send

__all__ = ["CannotListen", "read_address", "run_http", "say_where", "serve_http"]

logger = logging.getLogger("mcpwire")

LOCAL: Final = "127.0.0.1"
"""2026-07-28 streamable-http, "Security Endpoint": local servers listen here only."""

BACKLOG: Final = 2_048
"""How many connections wait in the kernel to be accepted."""

BURST: Final = 64
"""How many connections are accepted in one turn of the loop."""

KEPT_DESCRIPTORS: Final = 32
"""How many of the process's descriptors connections leave to the rest."""

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
    "backlog": BURST,
    "timeout_graceful_shutdown": LAST_GRACE_S,
}
"""What uvicorn is told, unless somebody says otherwise."""

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
    quiet: bool = False,
    **options: Any,
) -> None:
    """Serve over HTTP as this process's whole work, until SIGINT or SIGTERM.

    One line on stderr says where it listens, and one follows for each request: those of
    the logger ``mcpwire.access``. Logging of the program's own keeps them.

    A handler that does not end, be it in a thread, ends with the process, with exit
    code 0: then this does not return.

    Args:
        server: What is served.
        address: ``HOST:PORT``, or a port on this machine itself; 0 takes a free one.
        around: Gives what is entered before and left behind serving, on its loop.
        quiet: Whether nothing is written to stderr of what goes well.
        options: Those of `serve_http`.

    Raises:
        LocalProtocolError: uvicorn is not installed.
        ValueError: The address, or an option, is none.
        CannotListen: Nothing can listen there; it is an `OSError`.
    """
    _import_uvicorn()
    known = threading.enumerate()
    if quiet:
        options.setdefault("announce", bool)  # which says nothing
    told = contextlib.nullcontext if quiet else told_on_stderr

    async def serve() -> list[threading.Timer]:
        async with around():
            await serve_http(server, address, has_signals=True, **options)
        return end_soon(0)

    with told():
        timers = asyncio.run(serve())
    for timer in timers:
        timer.cancel()
    leave_threads(known, 0)


async def serve_http(
    server: Served,
    address: str = f"{LOCAL}:8000",
    *,
    drain_timeout: float = 10.0,
    max_connections: int | None = None,
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
        max_connections: How many connections there may be; by default three quarters
            of the descriptors that the process may have.
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
    connections = Connections(
        app.limits,
        most=_most_connections() if max_connections is None else max_connections,
        keep_alive=(uvicorn or {}).get("timeout_keep_alive", KEEP_ALIVE_S),
    )
    runner = _runner(
        app, drain_timeout, uvicorn or {}, connections, has_signals=has_signals
    )
    listening = _listen(host, port)
    try:
        await app.start()
        path = options.get("path", "/mcp")
        scheme = "https" if (uvicorn or {}).get("ssl_certfile") else "http"
        url = f"{scheme}://{_spell(listening)}{path}"
        _warn(server, listening)
        if announce is not None:
            announce(url)
        else:
            say_where(url, server)
        await _run(runner, listening)
    finally:
        listening.close()
        await app.aclose()
        connections.close()


async def _run(runner: Any, listening: socket.socket) -> None:
    """Run uvicorn; being cancelled, let it end gracefully first."""
    running = asyncio.get_running_loop().create_task(
        runner.serve(sockets=[listening]), name="mcpwire-http-serve"
    )
    try:
        with _accept_errors_bounded():
            await asyncio.shield(running)
    except asyncio.CancelledError:
        runner.should_exit = True
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                runner.forced.set()  # asked again, it ends at once
        raise


@contextlib.contextmanager
def _accept_errors_bounded() -> Iterator[None]:
    """Log one line a second where no connection can be accepted."""
    loop, log = asyncio.get_running_loop(), LogLimit()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message = context.get("message")
        if message == "socket.accept() out of system resource":
            error = context.get("exception")
            log.log(logger.error, "cannot accept connections: %s", error)
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(before)


def _most_connections() -> int:
    """Return how many connections the process's descriptors allow."""
    try:
        import resource
    except ImportError:
        return 512 - KEPT_DESCRIPTORS  # Windows
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        descriptors = 2**20
    return max(1, min(descriptors * 3 // 4, descriptors - KEPT_DESCRIPTORS))


def _import_uvicorn() -> Any:
    try:
        import uvicorn
    except ImportError:
        raise LocalProtocolError(
            "serving over HTTP needs uvicorn: pip install uvicorn"
        ) from None
    return uvicorn


def _runner(
    app: App,
    drain_timeout: float,
    options: Mapping[str, Any],
    connections: Connections,
    *,
    has_signals: bool,
) -> Any:
    """Return a uvicorn server that drains the application before it ends."""
    uvicorn = _import_uvicorn()

    class Runner(uvicorn.Server):  # type: ignore[misc, name-defined] # is imported late
        """Drains first; ends by signals without passing them on."""

        forced = asyncio.Event()
        should_exit: bool

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for each in sockets or ():
                each.listen(BACKLOG)  # asyncio's `backlog` is also what a turn accepts

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            loop = asyncio.get_running_loop()
            connections.is_draining = True
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
    if http == "auto":
        http = connections
    return Runner(uvicorn.Config(app, **{**_OPTIONS, **options, "http": http}))


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


def say_where(url: str, server: Served) -> None:
    """Say on stderr where a server is reached, its name and its revisions."""
    if sys.stderr is None:
        return
    named: Any = server
    about = [getattr(named, "name", ""), *map(str, getattr(named, "revisions", ()))]
    said = ", ".join(filter(None, about))
    sys.stderr.write(f"mcpwire: serving {url}{said and f' ({said})'}\n")
    sys.stderr.flush()
