"""One server behind each kind of transport, with a way to cut its connection.

A `ServedTransport` is one of them: clients connect to `target`, and `cut` ends the
connection in use like the other side, or the network, would.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import mcpwire
from mcpwire.errors import TransportError
from mcpwire.server.stdio import serve_stdio
from mcpwire.transports import CallHandle, Inbound, Messages, Reverse, Stream


class ServedTransport:
    """A server behind one transport.

    Attributes:
        target: The target of clients.
        cut: Ends the connection in use from outside of the client.
        settle: Waits until all serving tasks have ended.
    """

    def __init__(
        self,
        target: Any,
        cut: Callable[[], object],
        settle: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.target = target
        self.cut = cut
        self.settle = settle or _at_once


async def _at_once() -> None:
    return None


# Memory and a channel written by a user...


def _cut_memory(near: Any) -> None:
    near.give_up(TransportError("the peer closed it", target=near.target))


class _MemoryTarget:
    """A target in memory that keeps its connections."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.near: Any = None

    def open_in_memory(self, inbound: Inbound, limits: Any) -> Any:
        self.near = self._server.open_in_memory(inbound, limits)
        return self.near

    def cut(self) -> None:
        _cut_memory(self.near)


@contextlib.asynccontextmanager
async def memory(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    target = _MemoryTarget(server)
    yield ServedTransport(target, target.cut)


class Own:
    """A transport with the members that `open_channel` and `Channel` require."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.channel: OwnChannel | None = None

    def open_channel(self, inbound: Inbound, limits: Any) -> "OwnChannel":
        self.channel = OwnChannel(self._server.open_in_memory(inbound, limits))
        return self.channel

    def cut(self) -> None:
        _cut_memory(self.channel.near)


class OwnChannel:
    """The four members of a `Channel`, and no others."""

    def __init__(self, near: Any) -> None:
        self.near = near

    @property
    def revision(self) -> Any:
        return self.near.revision

    @revision.setter
    def revision(self, revision: Any) -> None:
        self.near.revision = revision

    async def call(
        self,
        method: str,
        params: Any,
        *,
        deadline: Any,
        handle: CallHandle | None = None,
        on_notification: Any = None,
        headers: Any = None,
    ) -> Any:
        # The channel adapter applies deadlines: this one is not passed on.
        return await self.near.call(
            method,
            params,
            deadline=None,
            handle=handle,
            on_notification=on_notification,
            headers=headers,
        )

    async def notify(self, method: str, params: Any = None, *, headers: Any = None):
        await self.near.notify(method, params, headers=headers)

    async def aclose(self) -> None:
        await self.near.aclose()


@contextlib.asynccontextmanager
async def own(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    target = Own(server)
    yield ServedTransport(target, target.cut)


@contextlib.asynccontextmanager
async def own_late(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    target = Own(server)

    class Late:
        async def open_channel(self, inbound: Inbound, limits: Any) -> OwnChannel:
            await asyncio.sleep(0)  # stands for a slow opening
            return target.open_channel(inbound, limits)

    yield ServedTransport(Late(), target.cut)


# A child process...


class _Pipes:
    """Serves a child's pipes in this process, one child after the other."""

    def __init__(self, server: Any, folder: Path) -> None:
        self._server = server
        # Each child has its own pipes: those of the previous one may still be open.
        self._arrivals = folder / "arrivals"
        os.mkfifo(self._arrivals)
        self._folder = folder
        self._pid = 0
        self._is_over = False
        self._has_ended = asyncio.Event()
        self._has_ended.set()
        script = (
            f"cd {folder}; mkfifo into.$$ out_of.$$; echo $$ > arrivals\n"
            "cat < out_of.$$ & exec cat > into.$$"
        )
        self.target = mcpwire.Stdio("sh", ["-c", script])

    def _paths(self) -> list[Path]:
        return [self._folder / f"{name}.{self._pid}" for name in ("into", "out_of")]

    def _open(self) -> list[int]:
        """Wait for a child; return an empty list after `stop`."""
        with self._arrivals.open(encoding="ascii") as arrivals:
            pid = arrivals.readline().strip()
        if not pid:
            return []
        self._pid = int(pid)
        modes = os.O_RDONLY, os.O_WRONLY
        return [os.open(*each) for each in zip(self._paths(), modes, strict=True)]

    async def serve(self, pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_over:
            fds = await loop.run_in_executor(pool, self._open)
            try:
                if self._is_over:
                    return
                self._has_ended.clear()
                await serve_stdio(
                    self._server.dispatcher, stdin_fd=fds[0], stdout_fd=fds[1]
                )
            finally:
                self._has_ended.set()
                for fd in fds:
                    os.close(fd)

    def cut(self) -> None:
        os.killpg(self._pid, signal.SIGKILL)

    async def settle(self) -> None:
        await self._has_ended.wait()

    async def stop(self, serving: asyncio.Task[None]) -> None:
        """End with the current child, and stop waiting for another one."""
        self._is_over = True
        await self.settle()
        paths = [path for path in (self._arrivals, *self._paths()) if path.exists()]
        fds = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in paths]
        os.write(fds[0], b"\n")
        await asyncio.wait([serving])
        for fd in fds:
            os.close(fd)
        serving.result()


@contextlib.asynccontextmanager
async def stdio(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    """A child that forwards its pipes to a server in this process.

    Child, pipes and the code of both sides are real, but no interpreter is started.
    """
    pipes = _Pipes(server, folder)
    with ThreadPoolExecutor(1) as pool:
        serving = asyncio.create_task(pipes.serve(pool))
        try:
            yield ServedTransport(pipes.target, pipes.cut, pipes.settle)
        finally:
            await pipes.stop(serving)


# Byte streams...


class _Listener:
    """Serves each accepted stream, and keeps the writer of the last one."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.writer: Any = None
        self.serving: set[asyncio.Task[Any]] = set()

    async def __call__(self, reader: Any, writer: Any) -> None:
        self.writer = writer
        self.serving.add(asyncio.current_task())
        await self._server.serve_stream(reader, writer)

    def cut(self) -> None:
        self.writer.transport.abort()

    async def settle(self) -> None:
        if self.serving:
            await asyncio.wait(self.serving)


@contextlib.asynccontextmanager
async def tcp(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    serve = _Listener(server)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        yield ServedTransport(Stream.tcp("127.0.0.1", port), serve.cut, serve.settle)
        await serve.settle()


@contextlib.asynccontextmanager
async def unix(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    serve = _Listener(server)
    # The path of a socket may be 107 bytes long, and pytest's folders have long names.
    path = os.path.relpath(folder / "s")  # noqa: ASYNC240 - it touches no file
    async with await asyncio.start_unix_server(serve, path):
        yield ServedTransport(Stream.unix(path), serve.cut, serve.settle)
        await serve.settle()


# Messages...


class _Queues:
    """A connection of two queues."""

    def __init__(self) -> None:
        self.there: asyncio.Queue[Any] = asyncio.Queue()
        self.back: asyncio.Queue[Any] = asyncio.Queue()

    async def serve(self, server: Any, form: str = "bytes") -> None:
        def close() -> None:
            self.back.put_nowait(None)

        await server.serve_messages(
            self.back.put, self.there.get, close=close, form=form
        )

    def close(self) -> None:
        self.there.put_nowait(None)

    def cut(self) -> None:
        self.there.put_nowait(None)
        self.back.put_nowait(None)


@contextlib.asynccontextmanager
async def messages(
    server: Any, folder: Path, form: str
) -> AsyncIterator[ServedTransport]:
    serving: list[asyncio.Task[None]] = []
    opened: list[_Queues] = []

    async def open_pair() -> Messages:
        ends = _Queues()
        opened.append(ends)
        serving.append(asyncio.create_task(ends.serve(server, form)))
        return Messages(ends.there.put, ends.back.get, close=ends.close, form=form)

    async def settle() -> None:
        await asyncio.gather(*serving)

    def cut() -> None:
        opened[-1].cut()

    yield ServedTransport(Messages(open=open_pair), cut, settle)
    await settle()


# Reverse connections...


@contextlib.asynccontextmanager
async def reverse(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    """The server connects to the client repeatedly, like one behind a firewall."""
    target = Reverse(name="dials in")
    writers: list[Any] = []

    async def dial(port: int) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            await server.serve_stream(reader, writer)

    accepting: set[asyncio.Task[Any]] = set()

    async def accept(*stream: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        accepting.add(task)
        task.add_done_callback(accepting.discard)
        await target.accept(*stream)

    def cut() -> None:
        writers[-1].transport.abort()

    async with target, await asyncio.start_server(accept, "127.0.0.1", 0) as listener:
        dialling = asyncio.create_task(dial(listener.sockets[0].getsockname()[1]))

        async def settle() -> None:
            dialling.cancel()
            await asyncio.wait([dialling])
            await target.aclose()  # a new connection waits for a client
            if accepting:
                await asyncio.wait(set(accepting))

        yield ServedTransport(target, cut, settle)
        await settle()


@contextlib.asynccontextmanager
async def reverse_messages(server: Any, folder: Path) -> AsyncIterator[ServedTransport]:
    target = Reverse(name="sends in")
    opened: list[_Queues] = []

    async def dial() -> None:
        while True:
            ends = _Queues()
            opened.append(ends)
            accepting = asyncio.create_task(
                target.accept_messages(ends.there.put, ends.back.get, close=ends.close)
            )
            try:
                await ends.serve(server)
            finally:
                await accepting

    async with target:
        dialling = asyncio.create_task(dial())

        async def settle() -> None:
            await target.aclose()
            dialling.cancel()
            await asyncio.wait([dialling])

        def cut() -> None:
            opened[-1].cut()

        yield ServedTransport(target, cut, settle)
        await settle()


# HTTP...


@contextlib.asynccontextmanager
async def http(server: Any, folder: Path, mode: str) -> AsyncIterator[ServedTransport]:
    from hosting import hosted

    with hosted(server, mode) as host:

        def cut() -> None:
            """End all connections, also idle ones, before another request is sent.

            A request that is sent while an idle connection ends may have run.
            """
            there = set(host.raw.open)
            host.raw.close_connections()
            host.raw.wait_until(lambda: there.isdisjoint(host.raw.open))

        yield ServedTransport(mcpwire.Http(host.url), cut)


TRANSPORTS = {
    "memory": memory,
    "stdio": stdio,
    "json": partial(http, mode="json"),
    "sse": partial(http, mode="sse"),
    "tcp": tcp,
    "unix": unix,
    "bytes": partial(messages, form="bytes"),
    "dict": partial(messages, form="dict"),
    "reverse": reverse,
    "reverse_messages": reverse_messages,
    "own": own,
    "own_late": own_late,
}
