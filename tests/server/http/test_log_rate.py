"""Events that clients can cause at will are logged at most once a second."""

import contextlib
import json
import logging
from collections import Counter

import httpx
import pytest
from hosted import call, fields

from mcpwire import Server
from mcpwire.errors import AuthError
from mcpwire.server import log_limit
from mcpwire.server.auth import ResourceServer
from mcpwire.server.log_limit import LogLimit
from mcpwire.testing import AsgiTransport

pytestmark = pytest.mark.attack("X13")

URL = "http://127.0.0.1/mcp"
TIMES = 10


@pytest.fixture
def clock(monkeypatch):
    """Return a list with the time, which only the test changes."""
    now = [100.0]
    monkeypatch.setattr(LogLimit, "INTERVAL_S", 1.0)
    monkeypatch.setattr(log_limit, "shared", LogLimit(lambda: now[0]))
    return now


@contextlib.asynccontextmanager
async def client_of(server, **options):
    app = server.asgi(**options)
    async with httpx.AsyncClient(transport=AsgiTransport(app)) as http:
        yield http
    await app.aclose()


async def posted(http, message, **more):
    known = message if isinstance(message, dict) else None
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    head = dict(fields(known, **{"host": "127.0.0.1", **more}))
    return await http.post(URL, content=body, headers=head)


def lines(caplog):
    return [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith("mcpwire") and each.levelno >= logging.INFO
    ]


def failing():
    server = Server("x")

    @server.tool
    async def first() -> str:
        raise ZeroDivisionError("one")

    @server.tool
    async def second() -> str:
        raise ZeroDivisionError("two")

    return server


async def test_raising_tool_is_logged_once_a_second(clock, caplog):
    raised = "the handler of 'tools/call' of '{}' raised"
    async with client_of(failing()) as http:
        for name in ["first", "second"] * TIMES:
            assert (await posted(http, call(name=name))).json()["result"]["isError"]
        assert lines(caplog) == [raised.format("first"), raised.format("second")]
        assert [each.exc_info[0] for each in caplog.records] == [ZeroDivisionError] * 2
        assert {each.filename for each in caplog.records} == {"dispatcher.py"}
        clock[0] += 1
        await posted(http, call(name="first"))
    more = f"({TIMES - 1} more were not logged)"
    assert lines(caplog)[2:] == [f"{raised.format('first')} {more}"]


class Verifier:
    """Fails in each way that a verifier can."""

    async def verify(self, token):
        raise AuthError("down") if token == "down" else ZeroDivisionError


async def test_failed_verification_is_logged_once_a_second_for_each_kind(clock, caplog):
    auth = ResourceServer(
        URL, authorization_servers=["https://as.example"], verifiers=[Verifier()]
    )
    async with client_of(Server("x", auth=auth)) as http:
        for token in ["down", "fails"] * TIMES:
            fields = {"authorization": f"Bearer {token}"}
            assert (await posted(http, call(), **fields)).status_code == 503
    kinds = [line.partition("> ")[2] for line in lines(caplog)]
    assert kinds == ["cannot verify a token now: down", "failed: ZeroDivisionError"]


async def test_refused_requests_are_logged_at_most_once(clock, caplog):
    server = failing()
    server.add_tool(lambda: float("nan"), name="nan")
    deep = b"[" * 100_000
    caplog.set_level(logging.INFO)
    async with client_of(server) as http:
        for _ in range(TIMES):
            await posted(http, call(), host="rebound.example")
            await posted(http, call(), mcp_protocol_version="1")
            await posted(http, call(), mcp_session_id="none")
            await posted(http, call(name="nan"))
            await posted(http, call(name="none"))
            for body in (b"", b"{", b"[]", deep, b"\xff", b'{"jsonrpc": "2.0"}'):
                await posted(http, body)
    by_logger = Counter(each.name for each in caplog.records)
    # Only the access log has a line for each request.
    assert by_logger.pop("mcpwire.access") == TIMES * 11
    del by_logger["httpx"]
    assert by_logger == {"mcpwire": 1}
    assert "the handler of 'tools/call' of 'nan' raised" in caplog.text
