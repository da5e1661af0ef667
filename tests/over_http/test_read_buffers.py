"""Connections of one engine read to one place, which grows with what comes."""

import asyncio
import threading

import pytest
from certificates import client_context, server_context
from engines import echo, open_engine
from http_bytes import json_reply
from raw_server import raw_server

from mcpwire.transports.http._connection import FIRST_READ_BYTES, READ_BYTES

pytestmark = [pytest.mark.anyio, pytest.mark.unchecked_wire("the bodies are no MCP")]

LONG = "x" * 3 * FIRST_READ_BYTES


@pytest.mark.parametrize("is_secure", [False, True])
async def test_little_is_held_until_much_has_come(is_secure):
    options = {"ssl_context": server_context()} if is_secure else {}
    trust = {"ssl": client_context()} if is_secure else {}
    with raw_server(echo, **options) as server:
        async with open_engine("direct", server.url, **trust) as engine:
            assert (await engine.ask("a")).json
            assert len(engine.view) == FIRST_READ_BYTES
            assert LONG in str((await engine.ask(LONG)).json)
            assert len(engine.view) == READ_BYTES
            assert LONG in str((await engine.ask(LONG)).json)


async def test_answers_that_come_at_once_on_many_connections_are_not_mixed_up():
    together = threading.Barrier(8)

    def script(conn):
        while (request := conn.receive()) is not None:
            together.wait(30)
            conn.send(json_reply([request.json] * 5_000))

    with raw_server(script) as server:
        async with open_engine("direct", server.url) as engine:
            for _ in range(3):
                asked = [f"{number}" for number in range(8)]
                replies = await asyncio.gather(*map(engine.ask, asked))
                assert [reply.json for reply in replies] == [[n] * 5_000 for n in asked]
            assert server.connections == 8
