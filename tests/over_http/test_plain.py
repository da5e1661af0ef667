"""The transport of our own over TCP: to a protocol it is what asyncio's is."""

import asyncio
import contextlib
import gc
import socket
import weakref

import pytest
from engines import eventually

from mcpwire.transports.http import _plain

pytestmark = pytest.mark.anyio

BOUND_S = 30.0


class Recorder(asyncio.BufferedProtocol):
    """Notes down what it is told; `on` has what it does beside."""

    def __init__(self):
        self.buffer = memoryview(bytearray(65_536))
        self.told = []
        self.data = b""
        self.on = {}

    def _note(self, what, *values):
        self.told.append((what, *values))
        if what in self.on:
            self.on[what]()

    def connection_made(self, transport):
        self.transport = transport
        self._note("made")

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.data += self.buffer[:nbytes]
        self._note("data")

    def eof_received(self):
        self._note("eof")

    def pause_writing(self):
        self._note("pause")

    def resume_writing(self):
        self._note("resume")

    def connection_lost(self, exc):
        self._note("lost", type(exc))

    @property
    def is_lost(self):
        return self.told[-1][0] == "lost"


@pytest.fixture(params=["ours", "asyncio's"])
def transport_of(request):
    """Each promise holds for asyncio's transport as well: it is what is replaced."""

    async def make(sock, protocol):
        loop = asyncio.get_running_loop()
        if request.param == "ours":
            return _plain.PlainTransport(loop, sock, protocol)
        transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
        return transport

    return make


@contextlib.asynccontextmanager
async def pair(transport_of, **on):
    """Yield a protocol on its transport, and the other end of its socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    theirs.setblocking(False)
    protocol = Recorder()
    protocol.on = on
    with theirs:
        transport = await transport_of(ours, protocol)
        async with asyncio.timeout(BOUND_S):
            yield protocol, theirs
        if not protocol.is_lost:
            transport.abort()
            await eventually(lambda: protocol.is_lost)
        assert [told[0] for told in protocol.told].count("lost") == 1
        assert ours.fileno() == -1


def others(protocol):
    """Return what it was told beside data and writing."""
    beside = {"data", "pause", "resume"}
    return [told for told in protocol.told if told[0] not in beside]


async def read_all(theirs, size):
    """Return so many bytes from the other end."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        data += await loop.sock_recv(theirs, 1_000_000)
    return data


async def test_bytes_go_both_ways(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        theirs.send(b"in")
        await eventually(lambda: protocol.data == b"in")
        protocol.transport.write(b"out")
        assert await read_all(theirs, 3) == b"out"
        assert protocol.transport.get_write_buffer_size() == 0
    assert others(protocol) == [("made",), ("lost", type(None))]


async def test_one_turn_reads_no_more_than_the_buffer_takes(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        sent = b"x" * 200_000
        await asyncio.get_running_loop().sock_sendall(theirs, sent)
        await eventually(lambda: protocol.data == sent)
        assert len(protocol.told) >= 1 + 4


async def test_the_end_of_the_stream_is_told_and_closes(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        theirs.shutdown(socket.SHUT_WR)
        await eventually(lambda: protocol.is_lost)
        assert theirs.recv(1) == b""
    assert others(protocol) == [("made",), ("eof",), ("lost", type(None))]


async def test_a_reset_is_told_as_the_error_that_it_is(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        theirs.close()
        await eventually(lambda: protocol.is_lost)
    assert others(protocol) == [("made",), ("lost", ConnectionResetError)]


async def test_what_cannot_be_written_closes_from_the_loop_and_not_at_once(
    transport_of,
):
    async with pair(transport_of) as (protocol, _):
        sock = protocol.transport.get_extra_info("socket")
        sock.shutdown(socket.SHUT_WR)
        protocol.transport.write(b"x")
        assert protocol.transport.is_closing()
        assert not protocol.is_lost
        protocol.transport.write(b"more")
        protocol.transport.close()
        await eventually(lambda: protocol.is_lost)
    assert others(protocol) == [("made",), ("lost", BrokenPipeError)]


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_nothing_is_read_once_it_is_closing(transport_of, how):
    async with pair(transport_of) as (protocol, theirs):
        theirs.send(b"too late")
        end = getattr(protocol.transport, how)
        end()
        end()
        assert protocol.transport.is_closing()
        assert not protocol.is_lost
        await eventually(lambda: protocol.is_lost)
    assert others(protocol) == [("made",), ("lost", type(None))]
    assert protocol.data == b""


async def test_a_protocol_may_close_within_what_it_is_told(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        protocol.on["data"] = protocol.transport.abort
        theirs.send(b"x")
        await eventually(lambda: protocol.is_lost)
    assert others(protocol) == [("made",), ("lost", type(None))]


@pytest.fixture
def complaints(monkeypatch):
    """Collect what the handlers of loops are told of."""
    found = []

    def handle(loop, context):
        found.append(context["exception"])

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_exception_handler", handle)
    return found


@pytest.mark.parametrize("where", ["data", "eof"])
async def test_an_error_of_the_protocol_is_told_to_the_loop_and_closes(
    transport_of, where, complaints
):
    def fail():
        raise error

    error = KeyError("a bug")
    async with pair(transport_of, **{where: fail}) as (protocol, theirs):
        if where == "data":
            theirs.send(b"x")
        else:
            theirs.shutdown(socket.SHUT_WR)
        await eventually(lambda: protocol.is_lost)
    assert complaints == [error]
    assert protocol.told[-1] == ("lost", KeyError)


# Writing more than the system takes...

MUCH = b"0123456789abcdef" * 1_000_000


async def test_what_the_system_does_not_take_is_written_as_soon_as_it_does(
    transport_of,
):
    async with pair(transport_of) as (protocol, theirs):
        protocol.transport.write(MUCH)
        waiting = protocol.transport.get_write_buffer_size()
        assert 0 < waiting < len(MUCH)
        protocol.transport.write(b"behind")
        assert protocol.transport.get_write_buffer_size() == waiting + 6
        assert protocol.told == [("made",), ("pause",)]
        assert await read_all(theirs, len(MUCH) + 6) == MUCH + b"behind"
        await eventually(lambda: not protocol.transport.get_write_buffer_size())
        assert protocol.told == [("made",), ("pause",), ("resume",)]


async def test_who_is_told_to_write_on_may_do_so_at_once(transport_of):
    def more():
        protocol.on.clear()
        protocol.transport.write(b"more")

    async with pair(transport_of, resume=more) as (protocol, theirs):
        protocol.transport.write(MUCH)
        assert await read_all(theirs, len(MUCH) + 4) == MUCH + b"more"


async def test_closing_writes_what_is_left_and_reads_no_more(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        # A socket that closes with something unread resets the connection, and what
        # the system had taken of it is lost: so another descriptor keeps it open.
        with protocol.transport.get_extra_info("socket").dup() as kept:
            protocol.transport.write(MUCH)
            protocol.transport.close()
            theirs.send(b"unread")
            assert await read_all(theirs, len(MUCH)) == MUCH
            await eventually(lambda: protocol.is_lost)
            assert protocol.data == b""
            assert kept.recv(100) == b"unread"
    assert others(protocol) == [("made",), ("lost", type(None))]


async def test_aborting_drops_what_is_left(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        protocol.transport.write(MUCH)
        protocol.transport.close()
        protocol.transport.abort()
        assert protocol.transport.get_write_buffer_size() == 0
        await eventually(lambda: protocol.is_lost)
        with contextlib.suppress(ConnectionResetError):
            while data := await asyncio.get_running_loop().sock_recv(theirs, 65_536):
                assert len(data) < len(MUCH)


async def test_a_peer_that_leaves_ends_what_is_being_written(transport_of):
    async with pair(transport_of) as (protocol, theirs):
        protocol.transport.write(MUCH)
        theirs.close()
        await eventually(lambda: protocol.is_lost)
    assert protocol.told[-1][1] in {ConnectionResetError, BrokenPipeError}


# What ours does beside...


async def ours(sock, protocol):
    return _plain.PlainTransport(asyncio.get_running_loop(), sock, protocol)


async def test_a_full_socket_is_waited_for_from_the_first_byte_on():
    def full(data):
        raise BlockingIOError

    async with pair(ours) as (protocol, theirs):
        transport = protocol.transport
        real, transport._send = transport._send, full
        assert transport.put(b"later")
        transport._flush()
        assert transport.get_write_buffer_size() == 5
        transport._send = real
        assert await read_all(theirs, 5) == b"later"


async def test_an_error_in_writing_the_rest_closes():
    def broken(data):
        raise BrokenPipeError

    async with pair(ours) as (protocol, _):
        protocol.transport.write(MUCH)
        protocol.transport._send = broken
        protocol.transport._flush()
        assert protocol.transport.get_write_buffer_size() == 0
        await eventually(lambda: protocol.is_lost)
    assert others(protocol) == [("made",), ("lost", BrokenPipeError)]


async def test_a_moment_too_late_there_is_nothing_to_read_or_write():
    async with pair(ours) as (protocol, _):
        protocol.transport._read()  # nothing has come
        protocol.transport.abort()
        protocol.transport._read()
        protocol.transport._flush()
        assert repr(protocol.transport).endswith(" closing>")
    assert others(protocol) == [("made",), ("lost", type(None))]


async def test_an_error_in_writing_on_is_told_to_the_loop_and_closes(complaints):
    def fail():
        raise error

    error = KeyError("a bug")
    async with pair(ours, resume=fail) as (protocol, theirs):
        protocol.transport.write(MUCH)
        await read_all(theirs, len(MUCH) // 2)
        while not protocol.is_lost:
            with contextlib.suppress(BlockingIOError):
                theirs.recv(1_000_000)
            await asyncio.sleep(0)
    assert complaints == [error]


async def test_a_protocol_that_closes_as_it_begins_is_never_read_for():
    class Hasty(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.abort()

    left, right = socket.socketpair()
    left.setblocking(False)
    with right:
        right.send(b"x")
        protocol = Hasty()
        await ours(left, protocol)
        await eventually(lambda: protocol.is_lost)
    assert others(protocol) == [("made",), ("lost", type(None))]
    assert protocol.data == b""


async def test_once_lost_nothing_holds_it():
    gc.collect()
    gc.disable()
    try:
        async with pair(ours) as (protocol, _):
            pass
        gone = weakref.ref(protocol)
        del protocol
        assert gone() is None
    finally:
        gc.enable()
