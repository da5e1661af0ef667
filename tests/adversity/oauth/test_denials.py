"""Responses that refuse a request, and hostile servers that send them."""

import pytest
from authorization_server import oauth, protected_server
from engine_calls import connected, echo
from http_bytes import head

import mcpwire

pytestmark = pytest.mark.fault("F38")

HANG_S = 100.0
"""How long an endless body lasts: longer than any test."""

QUICK = mcpwire.Recovery(backoff_initial=0.01, backoff_max=0.05)
UNAVAILABLE = (503, {}, b"")


@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
async def test_endless_body_of_a_401_is_not_read(auth, session, engine, framing):
    fields = {
        "length": {"content_length": "1000000"},
        "chunks": {"transfer_encoding": "chunked"},
        "close": {"connection": "close"},
    }[framing]
    async with connected(session, engine=engine) as client:
        auth.expire_all()
        usual = session._turns_away

        def turn_away(request, conn):
            if session._complaint(request) is None or session.raw is None:
                return usual(request, conn)
            if "/.well-known/" in request.target:
                return usual(request, conn)
            conn.send(head(401, www_authenticate="Bearer", **fields))
            conn.wait_closed(HANG_S)
            raise ConnectionAbortedError

        session._turns_away = turn_away
        await echo(client)
        session._turns_away = usual
    assert auth.grants == ["authorization_code", "refresh_token"]


@pytest.mark.pain("P32")
@pytest.mark.rule("FLOW-20")
async def test_resumption_survives_a_failed_token_request(auth):
    """The token expires while the call runs, and the first refresh fails."""
    token_requests = []

    def once(request):
        token_requests.append(request)
        return UNAVAILABLE if len(token_requests) == 1 else None

    with protected_server(auth, resumable=True, polls=1, replies="sse") as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target, recovery=QUICK) as client:
            server.on["tools/call"] = lambda request, conn: auth.expire_all()
            auth.on["token"] = once
            result = await client.call_tool("notify", {"steps": 2})
            assert result.text == "notified"
            assert len(server.executed) == 1
    assert len(token_requests) == 2


@pytest.mark.attack("S29")
async def test_user_may_log_in_again_once_tokens_are_accepted_again(auth, session):
    """Prompts stop when logins do not help, and return after a login elsewhere."""
    storage = mcpwire.MemoryStorage()
    async with connected(session, oauth(storage=storage)) as client:
        original, session._complaint = session._complaint, lambda _: (401, {})
        for _ in range(4):
            with pytest.raises(mcpwire.MCPError):
                await echo(client)
            auth.forget_all()
        session._complaint = original
        async with mcpwire.Client(
            mcpwire.Http(session.url, auth=oauth(storage=storage))
        ):
            pass  # logs in
        await echo(client)  # with the stored tokens
        auth.forget_all()
        await echo(client)  # this asks the user to log in
