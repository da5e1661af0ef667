"""The blocking client over byte streams and messages of the user's."""

import asyncio
import contextlib
import threading

import pytest

import mcpwire
import mcpwire.sync
from mcpwire.transports import Messages, Stream


@pytest.fixture
def server():
    server = mcpwire.Server("custom", "1.0")

    @server.tool
    async def echo(message: str) -> str:
        return message

    return server


@contextlib.contextmanager
def listening(server):
    """Serve on a port in a thread; give the port."""
    ready, ports, ends = threading.Event(), [], []

    async def serve():
        serving = []

        async def one(reader, writer):
            serving.append(asyncio.current_task())
            await server.serve_stream(reader, writer)

        over = asyncio.Event()
        ends.extend([asyncio.get_running_loop(), over])
        async with await asyncio.start_server(one, "127.0.0.1", 0) as listener:
            ports.append(listener.sockets[0].getsockname()[1])
            ready.set()
            await over.wait()
            await asyncio.gather(*serving)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    yield ports[0]
    loop, over = ends
    loop.call_soon_threadsafe(over.set)
    thread.join(30)


@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
def test_a_stream_works_as_it_does_on_a_loop(server, mode):
    with listening(server) as port:
        client = mcpwire.sync.Client(Stream.tcp("127.0.0.1", port), mode=mode)
        for _ in range(2):
            with client:
                text = "x" * 200_000
                result = client.call_tool("echo", {"message": text}, timeout=10)
                assert result.text == text
                assert client.protocol_version == mode
    with pytest.raises(mcpwire.ConnectError, match="ConnectionRefusedError"):
        client.connect()


def test_messages_are_moved_by_functions_that_run_on_a_loop_of_their_own(server):
    async def open_pair():
        there, back = asyncio.Queue(), asyncio.Queue()
        serving = asyncio.create_task(
            server.serve_messages(
                back.put, there.get, close=lambda: back.put_nowait(None), form="dict"
            )
        )

        async def close():
            there.put_nowait(None)
            await serving

        return Messages(there.put, back.get, close=close, form="dict")

    with mcpwire.sync.Client(Messages(open=open_pair)) as client:
        assert client.call_tool("echo", {"message": "x"}).text == "x"


@pytest.mark.parametrize("kind", ["reverse", "own"])
def test_what_belongs_to_a_users_loop_is_refused_by_name(kind):
    class Own:
        def open_channel(self, inbound, limits): ...

    target = mcpwire.transports.Reverse() if kind == "reverse" else Own()
    with pytest.raises(ValueError, match=r"use mcpwire\.Client"):
        mcpwire.sync.Client(target)
