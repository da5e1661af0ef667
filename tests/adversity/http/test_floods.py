"""Floods that nobody waits for: what is left of a body, and questions without end."""

import itertools

import pytest
from faulty import ONCE, connected, outcome, until
from mcp_server import scripted_mcp
from raw_server import LAST_CHUNK, chunk, head, sse_event, sse_head
from test_hostile import KIB, LIMITS, QUESTIONS, endless

import mcpwire
from mcpwire import HTTPError, RemoteProtocolError

pytestmark = pytest.mark.anyio

FLOOD_S = 150.0
"""What two thousand questions may take, where others have the machine."""


FLOODS = {
    "an error": (head(500, transfer_encoding="chunked"), chunk(KIB), HTTPError),
    "a page": (
        head(200, content_type="text/html", transfer_encoding="chunked"),
        chunk(KIB),
        RemoteProtocolError,
    ),
}


@pytest.mark.parametrize("case", FLOODS)
@pytest.mark.attack("S15")
async def test_an_answer_without_end_is_cut_at_the_limit(case):
    begin, piece, expected = FLOODS[case]
    handler = endless(begin, piece)
    with scripted_mcp() as server:
        async with connected(server, limits=LIMITS, recovery=ONCE) as client:
            server.on["tools/call"] = handler
            error = await outcome(client.call_tool("echo"))
            assert isinstance(error, expected), error
            await until(lambda: handler.ended)


@pytest.mark.timeout(180)
@pytest.mark.attack("S28")
async def test_a_flood_of_questions_is_answered_over_a_few_connections():
    async def elicitation(request):
        return {}

    counter = itertools.count()

    def floods(request, conn):
        conn.send(sse_head())
        method = "elicitation/create"
        question = {"jsonrpc": "2.0", "method": method, "params": QUESTIONS[method]}
        for _ in range(20):
            events = [sse_event({**question, "id": next(counter)}) for _ in range(100)]
            conn.send(chunk(b"".join(events)))
        result = {"content": [{"type": "text", "text": "fine"}]}
        answer = {"jsonrpc": "2.0", "id": request.json["id"], "result": result}
        conn.send(chunk(sse_event(answer)) + LAST_CHUNK)
        return True

    with scripted_mcp() as server:
        options = {"elicitation": elicitation}
        options |= {"bound": FLOOD_S, "timeout": FLOOD_S}
        options |= {"limits": mcpwire.Limits(questions=2_000)}
        async with connected(server, **options) as client:
            server.on["tools/call"] = floods
            assert (await client.call_tool("echo")).text == "fine"
            await until(lambda: server.verbs().count("answer") == 2000, FLOOD_S)
            assert server.connections <= 128
