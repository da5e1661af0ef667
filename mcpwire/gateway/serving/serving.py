"""What `Gateway` has to be served: on stdio, over HTTP, over what the user opened."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from typing import Self

    from mcpwire.config import Configuration
    from mcpwire.gateway.app import Gateway
    from mcpwire.gateway.plan import Changes
    from mcpwire.gateway.serving.mounts import Mounts
    from mcpwire.transports.custom import ReceiveFn, SendFn

__all__ = ["Serving", "Watched"]


@attrs.frozen
class Watched:
    """Files that say which servers there are."""

    files: Sequence[str]

    load: Callable[[], Mapping[str, Any]]
    """Returns the servers that they name now, as a `Gateway` takes them."""


class Serving:
    """The part of a gateway that serves it.

    Attributes:
        watched: The files that its servers come from, where they do.
    """

    watched: Watched | None = None

    @classmethod
    def from_config(
        cls,
        source: Any,
        *,
        layers: Iterable[Any] = (),
        environment: Mapping[str, str] | None = None,
        only: Iterable[str] | None = None,
        deny_urls: Iterable[str] = (),
        **options: Any,
    ) -> Self:
        """Return a gateway for the servers of a configuration, as `Group.from_config`.

        Args:
            source: A path, or what stands in such a file.
            layers: More of them, each over those before.
            environment: Where variables come from; ``None``: this process's.
            only: The names of the servers that are wanted; ``None``: all.
            deny_urls: Servers that are never connected to.
            options: Those of the gateway.

        Raises:
            ConfigError: The configuration breaks a rule; names file, entry and field.
            UnknownServer: `only` names one that there is none of.
            ValueError: An option is wrong.
        """
        from mcpwire.config import load

        deny, over = tuple(deny_urls), tuple(layers)
        wanted = None if only is None else tuple(only)

        def read() -> Configuration:
            return load(source, over, environment, only=wanted, deny_urls=deny)

        found = read()
        make: Any = cls
        made: Self = make(found.members(), deny_urls=deny, **options)
        if found.files:
            made.watched = Watched(
                files=found.files, load=lambda: dict(read().members())
            )
        return made

    async def reload(self, source: Any, **options: Any) -> Changes:
        """Have the servers of another configuration, also where sessions are open.

        Servers that are as they were keep their connections; clients hear that the
        lists have changed.

        Args:
            source: A `Configuration`, or what `from_config` takes.
            options: Those of `mcpwire.config.load`, such as ``layers``.

        Returns:
            What was added, removed and changed, as `Gateway.replace`.

        Raises:
            ConfigError: The configuration breaks a rule; nothing has changed then.
            TypeError: The gateway's servers are not the same for everybody.
        """
        from mcpwire.config import load

        gateway = cast("Gateway", self)
        options.setdefault("deny_urls", gateway.deny_urls)
        return await gateway.replace(load(source, **options).members())

    def drop(self, id: str) -> bool:
        """End a session by its id, for good; tell whether it was open here.

        The id is never read again, also not by who is just being connected with it.
        """
        gateway = cast("Gateway", self)
        gateway.sessions.withdraw(id)
        found = [
            session
            for dispatcher in gateway.dispatchers()
            for session in dispatcher.sessions_of(id)
        ]
        for session in found:
            if session.end is not None:
                session.end()
        return bool(found)

    # Where it is reached...

    def asgi(
        self,
        path: str = "/mcp",
        *,
        paths: bool = False,
        status: str | None = None,
        **options: Any,
    ) -> Mounts:
        """Return the gateway as an ASGI application.

        It runs under any ASGI server and can be mounted in any framework.

        Args:
            path: Where the endpoint with all servers is.
            paths: Whether each server is also at a path of its own, ``path/NAME``,
                where its tools and prompts have their own names. Where clients choose
                their servers, it is one of the chosen.
            status: The path that shows what `Gateway.status` returns, to whom may ask;
                ``None``: none.
            options: Those of `mcpwire.server.http.app.AsgiApp`.

        Raises:
            ValueError: An option is wrong.
        """
        from mcpwire.gateway.serving.mounts import Mounts

        gateway = cast("Gateway", self)
        return Mounts(gateway, path, has_paths=paths, status=status, options=options)

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout until the input ends.

        Cancelling it ends it; either way all servers are let go of.
        """
        from mcpwire.server.stdio import serve_stdio

        gateway = cast("Gateway", self)
        async with gateway:
            await serve_stdio(gateway.dispatcher)

    async def serve_stream(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one client over a byte stream; fits `asyncio.start_server`.

        See `mcpwire.server.custom.serve_stream`. What clients share of the servers is
        let go of with the last of them, unless the gateway is entered.
        """
        from mcpwire.server.custom import serve_stream

        gateway = cast("Gateway", self)
        async with _in_use(gateway):
            await serve_stream(gateway.dispatcher, reader, writer)

    async def serve_messages(
        self, send: SendFn, receive: ReceiveFn, **options: Any
    ) -> None:
        """Serve one client over single messages, such as those of a WebSocket.

        See `mcpwire.server.custom.serve_messages` for what it takes and raises, and
        `serve_stream` for what is let go of.
        """
        from mcpwire.server.custom import serve_messages

        gateway = cast("Gateway", self)
        async with _in_use(gateway):
            await serve_messages(gateway.dispatcher, send, receive, **options)

    def run(
        self, *, http: str | None = None, watch: bool = False, **options: Any
    ) -> None:
        """Serve as this process's whole work: on stdio, or over HTTP.

        Args:
            http: ``"HOST:PORT"`` to serve HTTP there; port 0 takes a free one.
            watch: Whether the servers are others when the files of the configuration
                are: then only those that changed are connected to anew.
            options: Those of `asgi`, and of `mcpwire.server.http.uvicorn.serve_http`.

        Raises:
            SystemExit: It was ended by a signal, with the code of that.
            ValueError: There are no files to watch.
        """
        gateway = cast("Gateway", self)
        if watch and self.watched is None:
            raise ValueError("watch needs a gateway that is made of files")
        around = partial(_held, gateway, self.watched if watch else None)
        if http is not None:
            from mcpwire.server.http.uvicorn import run_http

            run_http(gateway, http, around=around, **options)
            return
        if options:
            raise TypeError(f"stdio has no option {next(iter(options))!r}")
        from mcpwire.server.stdio import run_stdio

        code = run_stdio(gateway.dispatcher, around=around)
        if code:
            raise SystemExit(code)


@asynccontextmanager
async def _in_use(gateway: Gateway) -> AsyncIterator[None]:
    """Hold a gateway for as long as one client is served."""
    gateway.hold()
    try:
        yield
    finally:
        await gateway.release()


@asynccontextmanager
async def _held(gateway: Gateway, watched: Watched | None) -> AsyncIterator[None]:
    """Keep a gateway open, and watch its files, for as long as it is served."""
    async with gateway:
        if watched is None:
            yield
            return
        from mcpwire.gateway.serving.watching import watch

        watching = asyncio.get_running_loop().create_task(
            watch(gateway, watched), name="mcpwire-gateway-watch"
        )
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])
