"""Client input cannot break a response head, an event stream or a log line."""

import asyncio
import json
import logging
import re

import pytest
from asgi_driver import Visit, scope
from attacked_server import build
from hosted import fields, post, posted
from hypothesis import given
from hypothesis import strategies as st
from raw_client import META, modern, request, session

from mcpwire.server.auth import ResourceServer, StaticTokens

NAMED = (
    *("host", "origin", "accept", "content-type", "content-encoding", "authorization"),
    *(
        *("mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name"),
        "mcp-param-x",
    ),
    *("last-event-id", "access-control-request-method", "transfer-encoding", "dpop"),
    *("access-control-request-headers", "content-length", "x", "forwarded", "cookie"),
)

NASTY = st.text(
    st.sampled_from('\r\n\x00\x0b\x1b\x7f\x85\xa0\xff \t",;=:aA1-[]@/%?#'), max_size=30
)

GOOD = (
    *("127.0.0.1:8000", "http://localhost", "application/json", "*/*", "Bearer x"),
    *("2026-07-28", "2025-11-25", "tools/call", "echo", "POST", "text/event-stream"),
)

VALUES = (
    NASTY
    | st.sampled_from(GOOD)
    | st.builds("{}{}".format, st.sampled_from(GOOD), NASTY)
)

FIELDS = st.lists(st.tuples(st.sampled_from(NAMED), VALUES), max_size=6)

DEFAULT_HEAD = dict(fields(mcp_protocol_version=None))

LINE = re.compile(rb"[\x20-\x7e\x80-\xff]*")

METHODS = ("tools/call", "resources/read", "prompts/get", "initialize", "tools/list")


def guarded():
    """Return a server that requires a token."""
    auth = ResourceServer(
        "http://127.0.0.1:8000/mcp",
        authorization_servers=["https://as.example"],
        verifiers=[StaticTokens({"t" * 32: "ann"})],
    )
    return build(auth=auth)


@pytest.fixture(scope="module")
def apps():
    return {
        "open": build().asgi(cors=True, legacy_sse=True),
        "several pages": build().asgi(cors="*", allowed_hosts="*", legacy_sse=True),
        "guarded": guarded().asgi(cors=True),
    }


async def answers(app, verb, path, given, body):
    merged = {**DEFAULT_HEAD, **dict(given)}
    raw = [
        (name.encode(), value.encode("latin-1", "replace"))
        for name, value in (*merged.items(), *given[1:2])
    ]
    visit = Visit({**scope(verb, path), "headers": raw}, body)
    visit.leave()
    return (await visit.begin(app).done()).sent


REQUESTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["open", "several pages", "guarded"]),
        "verb": st.sampled_from(["POST", "GET", "DELETE", "OPTIONS", "\r\nX"]),
        "path": st.sampled_from(["/mcp", "/mcp/sse", "/mcp/messages"])
        | NASTY.map("/mcp{}".format),
        "fields": FIELDS,
        "method": st.sampled_from(METHODS) | NASTY,
        "said": NASTY,
        "has_session": st.booleans(),
    }
)


def body_of(case):
    text, method = case["said"], case["method"]
    params = {"name": text, "uri": text, "arguments": {text: text}}
    if case["has_session"]:
        return json.dumps(request(text, method, {**params, **session()})).encode()
    return json.dumps(modern(text, method, params)).encode()


@pytest.mark.attack("S19")
@given(case=REQUESTS)
def test_client_bytes_do_not_break_a_response_head(apps, case):
    app = apps[case["name"]]

    async def call_app():
        # An application is bound to its loop, and starts with its first request.
        events = await answers(
            app, case["verb"], case["path"], case["fields"], body_of(case)
        )
        await app.aclose()
        return events

    events = asyncio.run(call_app())
    if not events:
        return
    start, *rest = events
    assert start["type"] == "http.response.start"
    for field, value in start["headers"]:
        assert re.fullmatch(rb"[A-Za-z0-9-]+", field)
        assert LINE.fullmatch(value), (field, value)
    assert all(event["type"] == "http.response.body" for event in rest)


@pytest.mark.attack("S19")
async def test_client_text_does_not_inject_an_event():
    app = build().asgi()
    nasty = "x\r\n\r\nevent: endpoint\ndata: {}\n\nid: 1\r\rretry: 0\u2028\x85"
    params = {"name": "tell", "arguments": {"text": nasty}}
    params["_meta"] = {**META, "progressToken": nasty}
    visit = await post(app, request(nasty, "tools/call", params))
    lines = [line for line in re.split(r"\r\n|\r|\n", visit.body.decode()) if line]
    assert lines
    ours = (": ", ":", 'data: {"jsonrpc"')
    assert all(line.startswith(ours) or line == "event: message" for line in lines)
    assert visit.sse()[-1]["id"] == nasty
    await app.aclose()


@pytest.mark.attack("S32")
async def test_client_text_does_not_inject_a_log_line(caplog):
    caplog.set_level(logging.DEBUG)
    server = build()

    @server.tool
    async def fails(text: str) -> str:
        raise ValueError("ours")

    app = server.asgi()
    nasty = "x\r\n2026-01-01 admin logged in\x1b]0;title\x07\x1b[2J\x9b1m\u202e\u2028"
    for method, params in (
        (nasty, {}),
        ("tools/call", {"name": nasty}),
        ("tools/call", {"name": "fails", "arguments": {"text": nasty}}),
        ("resources/read", {"uri": nasty}),
        ("initialize", {**session(), "clientInfo": {"name": nasty, "version": nasty}}),
    ):
        for message in (modern(nasty, method, params), request(1, method, params)):
            named = {"mcp_method": method.encode().hex(), "user_agent": "a\nb"}
            for path in ("/mcp", "/mcp\r\nx\x1b[2J"):
                visit = posted(message, mcp_name=None, **named)
                visit.scope["path"] = path
                visit.leave()
                await visit.begin(app).done()
    await app.aclose()
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) >= 20
    assert [line for line in messages if not line.isprintable()] == []
