"""The head of an answer leaves together with what follows it."""

import asyncio

import pytest

from mcpwire.server.http.corking import HELD_MOST, Corked, Turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Transport:
    def __init__(self):
        self.writes = []
        self.closed = False

    def write(self, data):
        assert not self.closed
        self.writes.append(data)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name):
        return name


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


async def test_head_and_body_are_one_write():
    transport = Transport()
    corked = Corked(transport)
    corked.write(HEAD)
    corked.write(b"{}")
    corked.write(b"more")
    assert transport.writes == [HEAD + b"{}", b"more"]
    corked.writelines([HEAD, b"a"])
    corked.writelines([b"b", b"c"])
    assert transport.writes[2:] == [HEAD + b"abc"]
    await asyncio.sleep(0)  # the end of the turn, in which nothing is left to write
    assert len(transport.writes) == 3


async def test_a_head_alone_leaves_with_the_turn():
    transport = Transport()
    Corked(transport).write(HEAD)
    assert transport.writes == []
    await asyncio.sleep(0)  # the end of the turn
    assert transport.writes == [HEAD]


async def test_closing_writes_what_was_held_back():
    transport = Transport()
    corked = Corked(transport)
    corked.write(HEAD)
    corked.close()
    assert transport.writes == [HEAD]
    assert transport.closed
    await asyncio.sleep(0)  # the end of the turn
    assert transport.writes == [HEAD]


async def test_what_is_long_is_written_as_it_is():
    transport = Transport()
    corked = Corked(transport)
    body = b"x" * HELD_MOST
    for is_within in (False, True):
        transport.writes.clear()
        if is_within:
            corked.begin()
        corked.write(HEAD)
        corked.write(body)
        assert transport.writes[0] == HEAD
        assert transport.writes[1] is body
    corked.end()
    assert len(transport.writes) == 2


async def test_between_beginning_and_end_everything_is_held_back():
    transport = Transport()
    corked = Corked(transport)
    corked.begin()
    corked.write(b"1")
    corked.write(HEAD)
    corked.write(b"{}")
    assert transport.writes == []
    corked.end()
    assert transport.writes == []
    await asyncio.sleep(0)  # the end of the turn
    assert transport.writes == [b"1" + HEAD + b"{}"]
    corked.begin()
    corked.end()
    await asyncio.sleep(0)  # the end of the turn
    assert len(transport.writes) == 1


async def test_what_follows_in_the_same_turn_keeps_its_order():
    transport = Transport()
    corked = Corked(transport)
    corked.begin()
    corked.write(b"1")
    corked.end()
    corked.write(b"2")
    corked.write(b"3")
    await asyncio.sleep(0)  # the end of the turn
    assert transport.writes == [b"12", b"3"]


async def test_all_transports_of_a_server_write_at_the_end_of_one_turn(monkeypatch):
    loop, calls = asyncio.get_running_loop(), []
    call_soon = loop.call_soon

    def counted(*args, **options):
        calls.append(args)
        return call_soon(*args, **options)

    turn, transports = Turn(), [Transport(), Transport(), Transport()]
    monkeypatch.setattr(loop, "call_soon", counted)
    for transport in transports:
        corked = Corked(transport, turn)
        corked.begin()
        corked.write(HEAD)
        corked.write(b"{}")
        corked.end()
    monkeypatch.undo()
    assert len(calls) == 1
    transports[1].close()
    await asyncio.sleep(0)  # the end of the turn
    assert [transport.writes for transport in transports] == [
        [HEAD + b"{}"],
        [],
        [HEAD + b"{}"],
    ]


async def test_a_head_of_before_the_beginning_leaves_first():
    transport = Transport()
    corked = Corked(transport)
    corked.write(HEAD)
    corked.begin()
    corked.write(b"{}")
    corked.end()
    await asyncio.sleep(0)  # the end of the turn
    assert transport.writes == [HEAD + b"{}"]


async def test_a_head_for_nobody_is_dropped():
    transport = Transport()
    corked = Corked(transport)
    corked.write(HEAD)
    transport.close()
    await asyncio.sleep(0)  # the end of the turn
    assert transport.writes == []


async def test_everything_else_is_the_transports():
    assert Corked(Transport()).get_extra_info("peername") == "peername"
