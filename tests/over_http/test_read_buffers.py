"""Connections of one engine read to one place."""

import asyncio
import threading

import pytest
from engines import open_engine
from http_bytes import json_reply
from raw_server import raw_server

pytestmark = [pytest.mark.anyio, pytest.mark.unchecked_wire("the bodies are no MCP")]


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
