"""The head of an answer leaves together with what follows it."""

import asyncio

import pytest

from mcpwire.server.http.corking import Corked

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


async def test_a_head_for_nobody_is_dropped():
    transport = Transport()
    corked = Corked(transport)
    corked.write(HEAD)
    transport.close()
    await asyncio.sleep(0)  # the end of the turn
    assert transport.writes == []


async def test_everything_else_is_the_transports():
    assert Corked(Transport()).get_extra_info("peername") == "peername"
