"""Events that clients can cause at will are logged at most once a second."""

import logging
from collections import Counter

import pytest
from hosted import call, post

from mcpwire import Server
from mcpwire.errors import AuthError
from mcpwire.server import log_limit
from mcpwire.server.auth import ResourceServer
from mcpwire.server.log_limit import LogLimit

pytestmark = pytest.mark.attack("X13")

URL = "http://127.0.0.1:8000/mcp"
TIMES = 10


@pytest.fixture
def clock(monkeypatch):
    """Return a list with the time, which only the test changes."""
    now = [100.0]
    monkeypatch.setattr(LogLimit, "INTERVAL_S", 1.0)
    monkeypatch.setattr(log_limit, "shared", LogLimit(lambda: now[0]))
    return now


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
    app = failing().asgi()
    for name in ["first", "second"] * TIMES:
        assert (await post(app, call(name=name))).json()["result"]["isError"]
    assert lines(caplog) == [raised.format("first"), raised.format("second")]
    assert [each.exc_info[0] for each in caplog.records] == [ZeroDivisionError] * 2
    assert {each.filename for each in caplog.records} == {"dispatcher.py"}
    clock[0] += 1
    await post(app, call(name="first"))
    await app.aclose()
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
    app = Server("x", auth=auth).asgi()
    for token in ["down", "fails"] * TIMES:
        seen = await post(app, call(), authorization=f"Bearer {token}")
        assert seen.status == 503
    await app.aclose()
    kinds = [line.partition("> ")[2] for line in lines(caplog)]
    assert kinds == ["cannot verify a token now: down", "failed: ZeroDivisionError"]


async def test_refused_requests_are_logged_at_most_once(clock, caplog):
    server = failing()
    server.add_tool(lambda: float("nan"), name="nan")
    deep = b"[" * 100_000
    caplog.set_level(logging.INFO)
    app = server.asgi()
    for _ in range(TIMES):
        await post(app, call(), host="rebound.example")
        await post(app, call(), mcp_protocol_version="1")
        await post(app, call(), mcp_session_id="none")
        await post(app, call(name="nan"))
        await post(app, call(name="none"))
        for body in (b"", b"{", b"[]", deep, b"\xff", b'{"jsonrpc": "2.0"}'):
            await post(app, body)
    await app.aclose()
    by_logger = Counter(each.name for each in caplog.records)
    # Only the access log has a line for each request.
    assert by_logger.pop("mcpwire.access") == TIMES * 11
    assert by_logger == {"mcpwire": 1}
    assert "the handler of 'tools/call' of 'nan' raised" in caplog.text
